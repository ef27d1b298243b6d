// Attention in equal shares reads pages of the cache before the kernel that stores new keys has ended. Steps of stores
// and attention without a pause between them must give what they give with pauses, to the last bit.
#include "backend/cuda/attention/decode_shares.h"

#include <cmath>

#include "backend/cuda/device/capabilities.h"
#include "backend/cuda/l2/rope_store.h"
#include "core/rng.h"
#include "tests/backend/cuda/on_device.h"

namespace fk {
namespace {

// So many heads that a block has several units, of several sequences.
constexpr int64_t kSequences = 60, kHeads = 24, kKvHeads = 12, kHeadSize = 128, kPage = 16, kPages = 12, kSteps = 20;

class DecodeShares : public OnDevice {
 protected:
  static Tensor random(Shape shape, std::string_view name) {
    Tensor t(shape, DType::kBF16);
    Stream stream(7, name);
    auto* at = static_cast<std::byte*>(t.view().data());
    for (int64_t i = 0; i < t.view().numel(); ++i)
      store_element(at + 2 * i, DType::kBF16, stream.normal(static_cast<uint64_t>(i)));
    return t;
  }

  // Keys of sequence s at a step: some sequences have one page only, others many.
  static int64_t length(int64_t s, int64_t step) {
    return 1 + (s * 37) % (kPages * kPage - kSteps) / (1 + s % 3) + step;
  }

  // The outputs of all steps.
  void decode(bool pauses, std::vector<std::byte>& outputs) {
    Tensor keys = uploaded(old_keys_), values = uploaded(old_values_), qkv = uploaded(qkv_),
           out({kSteps, kSequences, kHeads, kHeadSize}, DType::kBF16, kCuda);
    Tensor lengths({kSteps, kSequences}, DType::kI32), positions({kSteps, kSequences}, DType::kI64),
        slots({kSteps, kSequences}, DType::kI64), table({kSequences, kPages}, DType::kI32);
    // Pages of the sequences alternate.
    for (int64_t s = 0; s < kSequences; ++s)
      for (int64_t p = 0; p < kPages; ++p)
        table.ptr<int32_t>()[s * kPages + p] = static_cast<int32_t>(p * kSequences + s);
    for (int64_t step = 0; step < kSteps; ++step)
      for (int64_t s = 0; s < kSequences; ++s) {
        const int64_t last = length(s, step) - 1;
        lengths.ptr<int32_t>()[step * kSequences + s] = static_cast<int32_t>(last + 1);
        positions.ptr<int64_t>()[step * kSequences + s] = last;
        slots.ptr<int64_t>()[step * kSequences + s] = (last / kPage * kSequences + s) * kPage + last % kPage;
      }
    Tensor lengths_there = uploaded(lengths), positions_there = uploaded(positions), slots_there = uploaded(slots),
           table_there = uploaded(table);
    const FlashAttnDecode::Init init{
        .num_heads = kHeads, .num_kv_heads = kKvHeads, .head_size = kHeadSize, .softmax_scale = 0.088};
    std::vector<double> frequencies;
    for (int64_t i = 0; i < kHeadSize / 2; ++i)
      frequencies.push_back(std::pow(10000.0, -2.0 * static_cast<double>(i) / kHeadSize));
    auto at = [](const Tensor& t, int64_t step) { return t.view().select(0, step); };
    auto pause = [&] {
      if (pauses) runtime().synchronize();
    };
    pause();
    for (int64_t step = 0; step < kSteps; ++step) {
      arena_.reset();
      View rows = at(qkv, step);
      cuda::rope_store({.qkv = rows,
                        .q_out = {},
                        .q_norm = {},
                        .k_norm = {},
                        .positions = at(positions_there, step),
                        .slot_mapping = at(slots_there, step),
                        .key_cache = keys.view(),
                        .value_cache = values.view(),
                        .num_heads = kHeads,
                        .num_kv_heads = kKvHeads,
                        .head_size = kHeadSize,
                        .frequencies = cuda::RotaryFrequencies::of(frequencies)},
                       runtime().stream());
      pause();
      cuda::AttentionCall call =
          cuda::decode_call(init, rows.narrow(1, 0, kHeads * kHeadSize).split_last(kHeads, kHeadSize), keys.view(),
                            values.view(), at(lengths_there, step), table_there.view(), at(out, step));
      call.cache_settled = true;
      if (!cuda::has_hopper_launches()) GTEST_SKIP() << "it needs Hopper";
      ASSERT_EQ(cuda::decode_shares_refusal(call), "");
      View scratch = arena_.make({{cuda::decode_shares_scratch(call)}, DType::kF32});
      cuda::attention_decode_shares(call, scratch.ptr<float>(), runtime().stream());
      pause();
    }
    runtime().synchronize();
    outputs = bytes_of(out);
  }

  Arena arena_{kCuda};
  Tensor old_keys_ = random({kSequences * kPages, kPage, kKvHeads, kHeadSize}, "old keys"),
         old_values_ = random({kSequences * kPages, kPage, kKvHeads, kHeadSize}, "old values"),
         qkv_ = random({kSteps, kSequences, (kHeads + 2 * kKvHeads) * kHeadSize}, "qkv");
};

TEST_F(DecodeShares, SeeTheKeysThatWereStoredJustBefore) {
  std::vector<std::byte> apart, together;
  decode(true, apart);
  for (int i = 0; i < 5; ++i) {
    decode(false, together);
    EXPECT_EQ(together, apart);
  }
}

}  // namespace
}  // namespace fk
