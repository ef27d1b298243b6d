// The plan of the CUDA kernel that computes a whole token: every row of every product is loaded once, to the place
// where the multiplying warp expects it. The plan is plain arithmetic, so no device is needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "backend/cuda/decode_megakernel/expert_plan.h"
#include "backend/cuda/decode_megakernel/packed_plan.h"
#include "backend/cuda/device/term_scale.h"
#include "backend/cuda/mamba_token/channel_share.h"

namespace fk::cuda {
namespace {

constexpr int kLoadWarps = 4, kLength = 4096;

PairRange pairs_of_block(int pairs, int block, int blocks, int first_block) {
  return pairs_of_block(divide_pairs(pairs, kLength, blocks), block, blocks, first_block);
}

// As PairShare::for_rounds in weight_stream.cuh.
template <class Visit>
void for_rounds(PairRange own, const Visit& visit) {
  const int pairs = rounds_of(own.count(), kLength).pairs;
  for (int first = own.begin; first < own.end; first += pairs)
    visit(PairRange{first, std::min(first + pairs, own.end)});
}

// A round has a warp for every pair, a chunk fits a slot, and no other division into rounds has fewer chunks.
TEST(RoundsOfPairs, FillSlots) {
  for (int length : {64, 768, 2048, 4096, 14336})
    for (int count = 1; count < 120; ++count) {
      auto chunks_of = [&](int pairs, int columns) {
        EXPECT_GT(columns, 0);
        EXPECT_LE(pairs * columns * 2 * 2, kSlotBytes);
        EXPECT_EQ(columns % kStep, 0);
        return (length + columns - 1) / columns;
      };
      auto chunks = [&](const PairRounds& r) {
        const int full = (count - 1) / r.pairs;
        return full * chunks_of(r.pairs, r.columns) + chunks_of(count - full * r.pairs, r.columns_of_last);
      };
      const PairRounds rounds = rounds_of(count, length);
      ASSERT_GE(rounds.pairs, 1);
      ASSERT_LE(rounds.pairs, kTokenWarps);
      const int fewest_rounds = (count + kTokenWarps - 1) / kTokenWarps;
      EXPECT_EQ((count + rounds.pairs - 1) / rounds.pairs, fewest_rounds);
      for (int pairs = 1; pairs <= std::min(count, kTokenWarps); ++pairs)
        if ((count + pairs - 1) / pairs == fewest_rounds) {
          EXPECT_LE(chunks(rounds), chunks({pairs, chunk_columns(pairs), chunk_columns((count - 1) % pairs + 1)}))
              << count << " pairs, rows of " << length;
        }
    }
  // Five slots hold the 20 pairs of queries, keys and values that a block of qwen3-30b-a3b has.
  const PairRounds qkv = rounds_of(20, 2048);
  EXPECT_EQ(qkv.pairs, 16);
  EXPECT_EQ(qkv.columns, 512);
  EXPECT_EQ(qkv.columns_of_last, 2048);
}

TEST(PairsOfBlocks, AreAllPairsOnceAndNearlyEqual) {
  for (int blocks : {1, 7, 114, 132})
    for (int pairs : {0, 1, 36, 131, 132, 133, 1024, 6144, 75968})
      for (int first_block : {0, 1, blocks - 1}) {
        std::vector<int> times(static_cast<size_t>(pairs));
        for (int block = 0; block < blocks; ++block) {
          const PairRange own = pairs_of_block(pairs, block, blocks, first_block % blocks);
          EXPECT_GE(own.count(), pairs / blocks);
          EXPECT_LE(own.count(), (pairs + blocks - 1) / blocks);
          for (int p = own.begin; p < own.end; ++p) ++times[static_cast<size_t>(p)];
        }
        EXPECT_EQ(std::count(times.begin(), times.end(), 1), pairs) << blocks << " blocks";
        const int next = next_first_block(divide_pairs(pairs, kLength, blocks), blocks, first_block % blocks);
        EXPECT_EQ(next, (first_block + pairs) % blocks);
      }
}

// Any float can be added: to an integer that holds as many of its size as there may be, without an error that counts.
TEST(TermsOfSums, OfAllSizesFit) {
  const float sizes[] = {0.0f,
                         0x1p-149f,
                         1e-9f,
                         0.3f,
                         0x1.fffffep20f,
                         0x1p21f,
                         0x1.000002p21f,
                         0x1.fffffep51f,
                         0x1p52f,
                         0x1.234567p83f,
                         0x1.fffffep113f,
                         0x1p114f,
                         std::numeric_limits<float>::max()};
  for (float size : sizes) {
    const int scale = term_scale(size);
    ASSERT_LT(scale, kTermScales);
    const double units = static_cast<double>(size) * terms_per_one(scale);
    EXPECT_LT(units, 0x1p63 / kMostAdders) << size;
    EXPECT_LE(std::fabs(std::nearbyint(units) - units), scale == 0 ? 0.5 : 0.0) << size;
  }
  EXPECT_EQ(term_scale(0x1.fffffep20f), 0);
  EXPECT_EQ(term_scale(0x1p21f), 1);
  EXPECT_EQ(term_scale(std::numeric_limits<float>::max()), kTermScales - 1);
}

// Every channel belongs to one block, in whole units, and the rounds of a block are those for its number of rows.
TEST(ChannelsOfBlocks, AreAllChannelsOnceInWholeUnits) {
  for (int blocks : {1, 7, 114, 132})
    for (int channels : {8, 528, 1536, 4616, 5120, 8192})
      for (int first_block : {0, 1, blocks - 1}) {
        const PairDivision d = divide_channels(channels, kLength, blocks);
        std::vector<int> times(static_cast<size_t>(channels));
        int most = 0;
        for (int block = 0; block < blocks; ++block) {
          const PairRange own = channel_pairs_of_block(d, block, blocks, first_block % blocks);
          EXPECT_EQ(own.begin % kUnitPairs, 0);
          EXPECT_EQ(own.count() % kUnitPairs, 0);
          most = std::max(most, 2 * own.count());
          const PairRounds &got = rounds_of_channels(d, own), wanted = rounds_of(own.count(), kLength);
          EXPECT_EQ(got.pairs, wanted.pairs);
          EXPECT_EQ(got.columns, wanted.columns);
          EXPECT_EQ(got.columns_of_last, wanted.columns_of_last);
          for (int c = 2 * own.begin; c < 2 * own.end; ++c) ++times[static_cast<size_t>(c)];
        }
        EXPECT_EQ(std::count(times.begin(), times.end(), 1), channels) << blocks << " blocks";
        EXPECT_EQ(most, most_channels_of_block(channels, blocks));
      }
}

TEST(GateUpRowsOfChosenExperts, AreLoadedOnceWhereTheirPairIsMultiplied) {
  for (int blocks : {1, 5, 132})
    for (auto [chosen, size] : {std::tuple{8, 768}, {2, 14336}, {4, 40}, {3, 16}, {7, 24}, {1, 17}}) {
      std::map<std::tuple<int, int>, int> times;  // (chosen expert, row of its matrix)
      for (int block = 0; block < blocks; ++block) {
        for_rounds(pairs_of_block(chosen * size, block, blocks, 0), [&](PairRange round) {
          for (int warp = 0; warp < kLoadWarps; ++warp) {
            const GateUpRows own = gate_up_rows(round, warp, size);
            ASSERT_GE(own.rows, 0);
            ASSERT_GE(own.rows_of_next, 0);
            for (int r = 0; r < own.rows + own.rows_of_next; ++r) {
              const bool next = r >= own.rows;
              const int expert = own.expert + (next ? 1 : 0);
              const int row = next ? own.first_of_next + 2 * (r - own.rows) : own.first + 2 * r;
              // Rows of a slot: pair after pair, gate before up; a load warp has every fourth.
              const int in_slot = warp + kLoadWarps * r, pair = round.begin + in_slot / 2;
              ASSERT_LT(expert, chosen);
              ASSERT_EQ(expert, pair / size);
              ASSERT_EQ(row, in_slot % 2 * size + pair % size);
              ++times[{expert, row}];
            }
          }
        });
      }
      EXPECT_EQ(times.size(), static_cast<size_t>(2 * chosen * size));
      EXPECT_TRUE(std::all_of(times.begin(), times.end(), [](const auto& t) { return t.second == 1; }));
    }
}

TEST(DownColumnsOfChosenExperts, AreInOneRunEach) {
  for (int columns : {256, 512, 768, 1024, 8192})
    for (auto [chosen, size] : {std::tuple{8, 768}, {2, 14336}, {4, 40}, {3, 264}}) {
      const int padded = padded_expert(size), length = chosen * padded;
      EXPECT_GE(padded, size);
      EXPECT_EQ(padded % kStep, 0);
      std::map<std::tuple<int, int>, int> times;  // (chosen expert, column of its matrix)
      for (int column = 0; column < length; column += columns) {
        const int end = std::min(column + columns, length);
        for (int at = column; at < end;) {
          const DownRun run = down_run(at, end, padded);
          ASSERT_GT(run.columns, 0);
          ASSERT_EQ(run.columns % kStep, 0);
          ASSERT_LT(run.expert, chosen);
          for (int c = 0; c < run.columns; ++c) {
            ASSERT_EQ(at + c, run.expert * padded + run.column + c);
            if (run.column + c < size) ++times[{run.expert, run.column + c}];
          }
          at += run.columns;
        }
      }
      EXPECT_EQ(times.size(), static_cast<size_t>(chosen * size));
      EXPECT_TRUE(std::all_of(times.begin(), times.end(), [](const auto& t) { return t.second == 1; }));
    }
}

TEST(RouterColumns, FitTheirRowsWhichStartInDifferentBanks) {
  for (int blocks : {1, 114, 132})
    for (int hidden : {8, 64, 72, 2048, 4096}) {
      const int stride = router_stride(hidden, blocks);
      EXPECT_EQ(stride % 2, 1);
      for (int block = 0; block < blocks; ++block)
        EXPECT_LE(pairs_of_block(hidden / 2, block, blocks, 0).count(), stride);
    }
}

TEST(PackedExperts, ItemsOfAllBlocksAreAllPairsOfRowsOnce) {
  for (int blocks : {1, 5, 132})
    for (auto [chosen, size, hidden] : {std::tuple{4, 2880, 2880}, {3, 32, 96}, {2, 544, 288}, {1, 32, 64}}) {
      using Pairs = std::map<std::tuple<int, int>, int>;  // (chosen expert, pair of rows)
      Pairs gate_up, down;
      for (int block = 0; block < blocks; ++block) {
        const PairRange features = pairs_of_block(chosen * size, block, blocks, 0);
        for (int i = 0; i < features.count(); ++i) {
          const PackedItem item = gate_up_item(features, i, size);
          EXPECT_EQ(item.expert * size + item.pair, features.begin + i);
          ++gate_up[{item.expert, item.pair}];
        }
        const PairRange rows = pairs_of_block(hidden / 2, block, blocks, 0);
        for (int i = 0; i < down_items(rows, chosen); ++i) {
          const PackedItem item = down_item(rows, i);
          // Where the sum over the experts looks for it.
          EXPECT_EQ(i, item.expert * rows.count() + item.pair - rows.begin);
          ++down[{item.expert, item.pair}];
        }
      }
      auto complete = [&](const Pairs& pairs, int of_expert) {
        EXPECT_EQ(pairs.size(), static_cast<size_t>(chosen * of_expert));
        for (const auto& [pair, times] : pairs) {
          EXPECT_EQ(times, 1);
          EXPECT_LT(std::get<0>(pair), chosen);
          EXPECT_LT(std::get<1>(pair), of_expert);
        }
      };
      complete(gate_up, size);
      complete(down, hidden / 2);
    }
}

TEST(PackedExperts, RowsAndTheOrderOfTheirInputFitTheWordsOfCodes) {
  EXPECT_EQ(packed_row_bytes(2880), 90 * 16 + 96);
  EXPECT_EQ(packed_row_bytes(32), 32);
  std::vector<int> times(288);
  for (int column = 0; column < 288; ++column) ++times[static_cast<size_t>(packed_column(column))];
  EXPECT_EQ(std::count(times.begin(), times.end(), 1), 288);
  // Byte b of a block has element b in its low half and element b + 16 in its high half (ops/formats/mxfp4.cpp). Lane t
  // of four has word t, and of x the eight elements from 8 t on, two for each of its half bytes k and k + 4.
  for (int t = 0; t < 4; ++t)
    for (int k = 0; k < 8; ++k) {
      const int byte = 4 * t + k / 2, element = byte + 16 * (k % 2);
      EXPECT_EQ(packed_column(element), 8 * t + 2 * (k % 4) + k / 4);
    }
}

}  // namespace
}  // namespace fk::cuda
