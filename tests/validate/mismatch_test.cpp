// Inserted errors: for each the message must describe where it is and what the wrong elements contain.
#include "validate/mismatch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "core/json.h"
#include "core/rng.h"
#include "validate/index_words.h"

namespace fk::validate {
namespace {

constexpr uint8_t kPoison = 0xff;

// An output of one call: correct until a test changes it.
struct Output {
  explicit Output(const Shape& shape, DType dtype = DType::kF32) : want(shape, DType::kF64), got(shape, dtype) {
    Stream stream(5, "mismatch");
    for (int64_t i = 0; i < shape.numel(); ++i) {
      want.view().ptr<double>()[i] = stream.uniform(static_cast<uint64_t>(i)) * 4 - 2;
      set(i, want_at(i));
    }
    item = {
        .name = "'out'", .arg = 0, .spec = got.view().spec(), .reference = want.view(), .bounds = {1e-4, 1e-4, 1, 1}};
  }
  double want_at(int64_t i) const { return want.view().ptr<double>()[i]; }
  void set(int64_t i, double value) {
    auto* bytes = static_cast<std::byte*>(got.view().data());
    store_element(bytes + static_cast<size_t>(i) * dtype_size(got.view().dtype()), got.view().dtype(), value);
  }
  int64_t size() const { return got.view().numel(); }
  void poison(int64_t i) { std::memset(got.view().ptr<float>() + i, kPoison, sizeof(float)); }

  Mismatch found(std::vector<const Tensor*> earlier = {}) const {
    std::optional<Mismatch> m = find_mismatch({item, got, kPoison, std::move(earlier)});
    EXPECT_TRUE(m.has_value());
    return m.value_or(Mismatch{});
  }
  std::string pattern() const { return found().pattern; }

  Tensor want, got;
  CallTruth::Item item;
};

TEST(IndexWords, SayWhichIndexesAreMeant) {
  auto words = [](size_t size, auto&& chosen) {
    std::vector<bool> list(size);
    for (size_t i = 0; i < size; ++i) list[i] = chosen(i);
    return index_words(list, "column");
  };
  EXPECT_EQ(words(8, [](size_t) { return true; }), "");
  EXPECT_EQ(words(8, [](size_t) { return false; }), "");
  EXPECT_EQ(words(8, [](size_t i) { return i == 3; }), "column 3 of 8");
  EXPECT_EQ(words(8, [](size_t i) { return i == 7; }), "column 7, the last of 8");
  EXPECT_EQ(words(8, [](size_t i) { return i == 0; }), "column 0, the first of 8");
  EXPECT_EQ(words(128, [](size_t i) { return i >= 96; }), "columns 96 to 127, the last 32 of 128");
  EXPECT_EQ(words(1003, [](size_t i) { return i >= 1000; }),
            "columns 1000 to 1002, the last 3 of 1003 (what is left after whole steps of 4 or 8)");
  EXPECT_EQ(words(64, [](size_t i) { return i >= 8 && i < 16; }), "columns 8 to 15 of 64");
  EXPECT_EQ(words(64, [](size_t i) { return i % 4 == 3; }), "every 4th column, from 3 on");
  EXPECT_EQ(words(9, [](size_t i) { return i % 2 == 1; }), "every second column, from 1 on");
  EXPECT_EQ(words(64, [](size_t i) { return i % 16 >= 8; }), "columns 8 to 15 of every 16");
  EXPECT_EQ(words(64, [](size_t i) { return i == 1 || i == 5 || i == 6; }), "3 of 64 columns (1, 5, 6)");
}

TEST(Mismatch, NothingWrongIsNoMismatch) {
  Output o({7, 40});
  EXPECT_FALSE(find_mismatch({o.item, o.got, kPoison, {}}).has_value());
}

TEST(Mismatch, NeverWrittenIsSaidWithThePlace) {
  Output o({7, 40});
  for (int64_t i = 6 * 40; i < 7 * 40; ++i) o.poison(i);
  EXPECT_EQ(o.pattern(), "All lie in row 6, the last of 7. They were never written.");
  o.set(3, 100);
  EXPECT_NE(o.pattern().find("40 of them were never written."), std::string::npos) << o.pattern();
}

TEST(Mismatch, TheLastTileAndTheHeadAreNamed) {
  Output tile({5, 128});
  Stream noise(9, "noise");
  for (int64_t i = 0; i < tile.size(); ++i)
    if (i % 128 >= 96) tile.set(i, 10 + noise.uniform(static_cast<uint64_t>(i)));
  EXPECT_EQ(tile.pattern(), "All lie in columns 96 to 127, the last 32 of 128.");
  Output head({3, 8, 16});
  for (int64_t i = 0; i < head.size(); ++i)
    if (i / 16 % 8 == 2) head.set(i, 10 + noise.uniform(static_cast<uint64_t>(i)));
  EXPECT_EQ(head.pattern(), "All lie in head 2 of 8.");
}

TEST(Mismatch, FirstNanHasItsPlace) {
  Output o({4, 32});
  double nan = std::numeric_limits<double>::quiet_NaN();
  o.set(2 * 32 + 5, nan);
  EXPECT_NE(o.pattern().find("The one at [2, 5] is NaN."), std::string::npos) << o.pattern();
  o.set(3 * 32 + 1, nan);
  EXPECT_NE(o.pattern().find("2 of them are NaN, the first at [2, 5]."), std::string::npos) << o.pattern();
}

struct Mistake {
  const char* name;
  Shape shape;
  std::function<double(const Output&, int64_t)> value;
  const char* says;
};

std::vector<Mistake> mistakes() {
  return {
      {"NextRow", {6, 40}, [](const Output& o, int64_t i) { return o.want_at((i + 40) % 240); }, "one row further on"},
      {"RowBefore",
       {6, 40},
       [](const Output& o, int64_t i) { return o.want_at(i < 40 ? i : i - 40); },
       "one row before"},
      {"TwoColumnsOn",
       {6, 40},
       [](const Output& o, int64_t i) { return o.want_at((i + 2) % 240); },
       "2 columns further on"},
      {"NextHead",
       {6, 4, 10},
       [](const Output& o, int64_t i) { return o.want_at((i + 10) % 240); },
       "one head further on"},
      {"Halves",
       {6, 40},
       [](const Output& o, int64_t i) { return o.want_at(i / 40 * 40 + (i + 20) % 40); },
       "first and the second half of the columns"},
      {"Transposed",
       {6, 40},
       [](const Output& o, int64_t i) { return o.want_at(i % 6 * 40 + i / 6); },
       "transposed: rows and columns"},
      {"SquareTransposed",
       {16, 16},
       [](const Output& o, int64_t i) { return o.want_at(i % 16 * 16 + i / 16); },
       "transposed: rows and columns"},
      {"HeadsTransposed",
       {3, 4, 10},
       [](const Output& o, int64_t i) { return o.want_at(i / 40 * 40 + i % 40 % 4 * 10 + i % 40 / 4); },
       "transposed: heads and columns"},
      {"Doubled", {6, 40}, [](const Output& o, int64_t i) { return 2 * o.want_at(i); }, "is 2 times what it should"},
      {"Negative", {6, 40}, [](const Output& o, int64_t i) { return -o.want_at(i); }, "wrong sign"},
      {"Added", {6, 40}, [](const Output& o, int64_t i) { return o.want_at(i) + 0.5; }, "too large by 0.5"},
      {"FactorPerRow",
       {6, 40},
       [](const Output& o, int64_t i) { return o.want_at(i) * (1.5 + static_cast<double>(i / 40)); },
       "a value computed once per row"},
      {"Zero", {6, 40}, [](const Output&, int64_t) { return 0.0; }, "Each of them is 0."},
      {"Bf16",
       {6, 40},
       [](const Output& o, int64_t i) {
         return static_cast<double>(static_cast<float>(bf16(static_cast<float>(o.want_at(i)))));
       },
       "rounded to bf16"},
      {"Random", {6, 40}, [](const Output&, int64_t i) { return 3 + 1e-2 * static_cast<double>(i * i % 97); }, ""},
  };
}

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreNamed) {
  const Mistake& p = GetParam();
  Output o(p.shape);
  for (int64_t i = 0; i < o.size(); ++i) o.set(i, p.value(o, i));
  std::string pattern = o.pattern();
  EXPECT_NE(pattern.find(p.says), std::string::npos) << pattern;
  EXPECT_EQ(pattern.empty(), *p.says == '\0') << pattern;
}

INSTANTIATE_TEST_SUITE_P(Mismatch, Mistakes, testing::ValuesIn(mistakes()), [](const auto& p) { return p.param.name; });

TEST(Mismatch, AStaleRowIsNamed) {
  Output o({6, 40});
  Tensor before({6, 40}, DType::kF32);
  for (int64_t i = 0; i < o.size(); ++i) before.view().ptr<float>()[i] = static_cast<float>(i) + 0.25f;
  for (int64_t i = 40; i < 80; ++i) o.set(i, static_cast<double>(i) + 0.25);
  Mismatch m = o.found({&before});
  EXPECT_EQ(m.pattern.find("All lie in row 1 of 6. They hold what an earlier call left there"), 0u) << m.pattern;
}

// Every element is within its own bounds, but the whole tensor is not: noise has no pattern, a factor has one.
TEST(Mismatch, SmallErrorsFitNoPatternByBeingSmall) {
  Output noise({40, 50}), factor({40, 50});
  Stream stream(8, "small errors");
  for (int64_t i = 0; i < noise.size(); ++i) {
    noise.set(i, noise.want_at(i) + 9e-5 * (stream.below(static_cast<uint64_t>(i), 2) == 0 ? 1 : -1));
    factor.set(i, factor.want_at(i) * 1.00009);
  }
  for (Output* o : {&noise, &factor}) o->item.bounds.largest_error = o->item.bounds.rms_error = 1e-5;
  EXPECT_EQ(noise.pattern().find("Each"), std::string::npos) << noise.pattern();
  EXPECT_NE(factor.pattern().find("Each of them is 1.00009 times"), std::string::npos) << factor.pattern();
}

TEST(Mismatch, LargeOutputsAreSampled) {
  Output o({300, 1000});
  for (int64_t i = 0; i < o.size(); ++i) o.set(i, -3 * o.want_at(i));
  EXPECT_EQ(o.pattern(), "Each of them is -3 times what it should be.");
}

// A single wrong element fits too many patterns, so only its position is reported.
TEST(Mismatch, OneElementHasAPlaceOnly) {
  Output o({6, 40});
  o.set(3 * 40 + 7, 9);
  EXPECT_EQ(o.pattern(), "All lie in row 3 of 6 and in column 7 of 40.");
}

TEST(Mismatch, ThePictureHasTheShareOfEachCell) {
  Output small({3, 5});
  small.set(1 * 5 + 4, 9);
  Mismatch m = small.found();
  EXPECT_EQ(m.rows, 3);
  EXPECT_EQ(m.cols, 5);
  ASSERT_EQ(m.grid.size(), 3u);
  ASSERT_EQ(m.grid[0].size(), 5u);
  EXPECT_EQ(m.grid[1][4], 1);
  EXPECT_EQ(m.grid[1][3], 0);

  Output large({100, 70});
  for (int64_t i = 0; i < large.size(); ++i)
    if (i / 70 >= 50) large.set(i, 9);
  m = large.found();
  ASSERT_EQ(m.grid.size(), 32u);
  for (const auto& row : m.grid) ASSERT_EQ(row.size(), 32u);
  for (size_t c = 0; c < 32; ++c) {
    EXPECT_EQ(m.grid[0][c], 0);
    EXPECT_EQ(m.grid[16][c], 1);
    EXPECT_EQ(m.grid[31][c], 1);
  }
  Json json = to_json(m);
  EXPECT_EQ(json.at("output"), "'out'");
  EXPECT_EQ(json.at("grid").size(), 32u);
  EXPECT_TRUE(json.at("pattern").is_string());
}

TEST(Mismatch, IntegersAndScalarsDoNotBreakIt) {
  Tensor want({4}, DType::kI32), got({4}, DType::kI32);
  for (int32_t i = 0; i < 4; ++i) want.view().ptr<int32_t>()[i] = got.view().ptr<int32_t>()[i] = i;
  got.view().ptr<int32_t>()[2] = 9;
  CallTruth::Item item{.name = "'ids'", .arg = 0, .spec = got.view().spec(), .reference = want.view()};
  std::optional<Mismatch> m = find_mismatch({item, got, kPoison, {}});
  ASSERT_TRUE(m);
  EXPECT_EQ(m->pattern, "All lie in element 2 of 4.");
  Output scalar{Shape{}};
  scalar.set(0, 9);
  EXPECT_EQ(scalar.found().rows, 1);
  Output empty({0, 4});
  EXPECT_FALSE(find_mismatch({empty.item, empty.got, kPoison, {}}).has_value());
}

}  // namespace
}  // namespace fk::validate
