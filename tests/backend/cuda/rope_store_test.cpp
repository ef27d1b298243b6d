// The fused norm, rotary embedding and cache write against the operators it replaces, on the CPU.
#include "backend/cuda/l2/rope_store.h"

#include "core/rng.h"
#include "ops/l1/gemma_rms_norm.h"
#include "ops/l1/rotary_emb.h"
#include "ops/l1/store_kvcache.h"
#include "ops/l1/unweighted_rms_norm.h"
#include "ops/registry.h"
#include "tests/backend/cuda/on_device.h"
#include "tests/conformance/compare.h"
#include "tests/conformance/guarded_tensor.h"

namespace fk {
namespace {

using conformance::GuardedTensor;
using conformance::Placement;

enum class Norm { kNone, kPlain, kGemma };
enum class Values { kGiven, kNormed, kKeys };  // the last: of the keys, and normed

struct Setting {
  DType dtype;
  int64_t head_size;
  Norm norm;
  Placement placement;
  bool in_place;
  Values values = Values::kGiven;
  int64_t rotated = 0;  // elements of a head; 0: all
  bool gates = false;   // behind the queries
};

constexpr int64_t kHeads = 5, kKvHeads = 2, kTokens = 6, kBlocks = 3;

void randomise(const View& v, std::string_view name, double mean, double deviation) {
  Stream stream(3, name);
  auto* at = static_cast<std::byte*>(v.data());
  for (int64_t i = 0; i < v.numel(); ++i)
    store_element(at + i * static_cast<int64_t>(dtype_size(v.dtype())), v.dtype(),
                  mean + deviation * stream.normal(static_cast<uint64_t>(i)));
}

Tensor numbers(const std::vector<int64_t>& values) {
  Tensor t({static_cast<int64_t>(values.size())}, DType::kI64);
  std::copy(values.begin(), values.end(), t.ptr<int64_t>());
  return t;
}

class RopeStore : public OnDevice {
 protected:
  template <class Op>
  void call_cpu(const typename Op::Init& init, const View* weight, std::vector<OptView> args) {
    std::unique_ptr<Node> node = Registry::instance().at(Op::kName).build(to_fields(init), {});
    if (weight != nullptr) node->bind([&](const std::string&) { return *weight; });
    Context ctx{.pool = pool_, .arena = arena_};
    node->call(ctx, args);
  }

  void check(const Setting& s) {
    const bool of_keys = s.values == Values::kKeys;
    const int64_t D = s.head_size, q_head = s.gates ? 2 * D : D, q_width = kHeads * q_head,
                  width = q_width + (of_keys ? 1 : 2) * kKvHeads * D;
    Tensor qkv({kTokens, width}, s.dtype), q_weight({D}, s.dtype), k_weight({D}, s.dtype);
    Tensor keys({kBlocks, 16, kKvHeads, D}, s.dtype), values({kBlocks, 16, kKvHeads, D}, s.dtype);
    randomise(qkv, "qkv", 0, 2);
    randomise(q_weight, "q", s.norm == Norm::kGemma ? 0 : 1, 0.2);
    randomise(k_weight, "k", s.norm == Norm::kGemma ? 0 : 1, 0.2);
    randomise(keys, "keys", 0, 1);
    randomise(values, "values", 0, 1);
    Tensor positions = numbers({0, 7, 100, 8191, 3, 120000}), slots = numbers({3, -1, 17, 40, 0, 47});
    RotaryEmbedding::Init rotary{
        .head_size = D, .rotary_dim = s.rotated > 0 ? s.rotated : D, .base = 500000, .dtype = s.dtype};
    double eps = 1e-5;

    // On the device.
    GuardedTensor there(qkv.view(), s.placement, kCuda),
        q_out(TensorSpec{{kTokens, kHeads * D}, s.dtype}, s.placement, kCuda);
    Placement dense = s.placement == Placement::kStridedRows ? Placement::kMisaligned : s.placement;
    GuardedTensor key_cache(keys.view(), dense, kCuda), value_cache(values.view(), dense, kCuda);
    GuardedTensor q_norm(q_weight.view(), dense, kCuda), k_norm(k_weight.view(), dense, kCuda);
    Tensor positions_there = uploaded(positions), slots_there = uploaded(slots);
    cuda::RopeStoreArgs args;
    args.qkv = there.view();
    args.query_gates = s.gates;
    args.values_are_keys = of_keys;
    args.value_norm = s.values != Values::kGiven;
    if (!s.in_place) args.q_out = q_out.view();
    if (s.norm != Norm::kNone) {
      args.q_norm = q_norm.view();
      args.k_norm = k_norm.view();
    }
    args.eps = eps;
    args.weight_offset = s.norm == Norm::kGemma ? 1 : 0;
    args.positions = positions_there;
    args.slot_mapping = slots_there;
    args.key_cache = key_cache.view();
    args.value_cache = value_cache.view();
    args.num_heads = kHeads;
    args.num_kv_heads = kKvHeads;
    args.head_size = D;
    args.frequencies = cuda::RotaryFrequencies::of(RotaryEmbedding::inverse_frequencies(rotary));
    ASSERT_EQ(cuda::rope_store_refusal(args), "");
    cuda::rope_store(args, runtime().stream());
    runtime().synchronize();

    // The same, operator by operator.
    Tensor q({kTokens, kHeads, D}, s.dtype), k({kTokens, kKvHeads, D}, s.dtype);
    View given_q = qkv.view().narrow(1, 0, q_width).split_last(kHeads, q_head).narrow(2, 0, D);
    View given_k = qkv.view().narrow(1, q_width, kKvHeads * D).split_last(kKvHeads, D);
    View given_v =
        of_keys ? given_k : qkv.view().narrow(1, q_width + kKvHeads * D, kKvHeads * D).split_last(kKvHeads, D);
    Tensor v({kTokens, kKvHeads, D}, s.dtype);
    if (s.values == Values::kGiven)
      copy_elements(given_v, v);
    else
      call_cpu<UnweightedRMSNorm>({.hidden_size = D, .eps = eps}, nullptr, {given_v, v.view()});
    auto normed = [&](const View& from, const Tensor& weight, const Tensor& to) {
      RMSNorm::Init norm{.hidden_size = D, .eps = eps, .dtype = s.dtype};
      if (s.norm == Norm::kNone)
        copy_elements(from, to);
      else if (s.norm == Norm::kPlain)
        call_cpu<RMSNorm>(norm, &weight.view(), {from, {}, to.view(), {}});
      else
        call_cpu<GemmaRMSNorm>(norm, &weight.view(), {from, {}, to.view(), {}});
    };
    normed(given_q, q_weight, q);
    normed(given_k, k_weight, k);
    call_cpu<RotaryEmbedding>(
        rotary, nullptr,
        {positions.view(), q.view().reshape({kTokens, kHeads * D}), k.view().reshape({kTokens, kKvHeads * D})});
    call_cpu<StoreKVCache>({.num_kv_heads = kKvHeads, .head_size = D}, nullptr,
                           {k.view(), v.view(), keys.view(), values.view(), slots.view()});

    // A norm rounded the other way moves the result by a step.
    Tolerance tolerance{.relative = 2 * dtype_epsilon(s.dtype), .of_scale = dtype_epsilon(s.dtype)};
    for (GuardedTensor* t : {&there, &q_out, &key_cache, &value_cache, &q_norm, &k_norm}) {
      t->look();
      EXPECT_EQ(t->fence_damage(), "");
    }
    EXPECT_EQ(q_norm.change() + k_norm.change(), "");
    View heads_seen = there.seen().narrow(1, 0, q_width).split_last(kHeads, q_head);
    View q_seen = s.in_place ? heads_seen.narrow(2, 0, D) : q_out.seen().split_last(kHeads, D);
    EXPECT_EQ(conformance::difference(q_seen, q, tolerance), "");
    if (s.gates) {
      View gates = qkv.view().narrow(1, 0, q_width).split_last(kHeads, q_head).narrow(2, D, D);
      EXPECT_EQ(conformance::difference(heads_seen.narrow(2, D, D), gates, {}), "");
    }
    EXPECT_EQ(conformance::difference(key_cache.seen(), keys, tolerance), "");
    EXPECT_EQ(conformance::difference(value_cache.seen(), values, s.values == Values::kGiven ? Tolerance{} : tolerance),
              "");
    View others = there.seen().narrow(1, q_width, width - q_width);
    EXPECT_EQ(conformance::difference(others, qkv.view().narrow(1, q_width, width - q_width), {}), "");
    if (!s.in_place) {
      EXPECT_EQ(there.change(), "");
    }
  }

  ThreadPool pool_{1};
  Arena arena_;
};

TEST_F(RopeStore, AgreesWithTheOperatorsItStandsFor) {
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32})
    for (int64_t head_size : {2, 16, 24, 64, 80, 128, 256})
      for (Norm norm : {Norm::kNone, Norm::kPlain, Norm::kGemma})
        for (Placement placement : {Placement::kAligned, Placement::kMisaligned, Placement::kStridedRows})
          for (bool in_place : {true, false}) {
            SCOPED_TRACE(fmt::format("{}, heads of {}, norm {}, {}, {}", dtype_name(dtype), head_size,
                                     static_cast<int>(norm), placement_name(placement),
                                     in_place ? "in place" : "apart"));
            check({dtype, head_size, norm, placement, in_place});
            if (HasFatalFailure()) return;
          }
}

TEST_F(RopeStore, NormsValuesAndTakesThemFromKeys) {
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32})
    for (int64_t head_size : {16, 80, 256, 512})
      for (Values values : {Values::kNormed, Values::kKeys})
        for (Placement placement : {Placement::kAligned, Placement::kMisaligned, Placement::kStridedRows})
          for (bool in_place : {true, false}) {
            SCOPED_TRACE(fmt::format("{}, heads of {}, values {}, {}, {}", dtype_name(dtype), head_size,
                                     static_cast<int>(values), placement_name(placement),
                                     in_place ? "in place" : "apart"));
            check({dtype, head_size, Norm::kPlain, placement, in_place, values});
            if (HasFatalFailure()) return;
          }
}

TEST_F(RopeStore, RotatesPartsOfHeadsAndLeavesGates) {
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32})
    for (auto [head_size, rotated] :
         {std::pair<int64_t, int64_t>{256, 64}, {80, 16}, {64, 20}, {24, 24}, {512, 128}, {16, 2}})
      for (bool gates : {true, false})
        for (Placement placement : {Placement::kAligned, Placement::kMisaligned, Placement::kStridedRows})
          for (bool in_place : {true, false}) {
            SCOPED_TRACE(fmt::format("{}, {} of {} elements, {}, {}, {}", dtype_name(dtype), rotated, head_size,
                                     gates ? "gates" : "no gates", placement_name(placement),
                                     in_place ? "in place" : "apart"));
            check({dtype, head_size, Norm::kGemma, placement, in_place, Values::kGiven, rotated, gates});
            if (HasFatalFailure()) return;
          }
}

TEST_F(RopeStore, SaysWhatItDoesNotTake) {
  Tensor qkv({2, 5 * 512}, DType::kBF16, kCuda), cache({1, 16, 1, 512}, DType::kBF16, kCuda);
  cuda::RopeStoreArgs args;
  args.qkv = qkv;
  args.key_cache = args.value_cache = cache;
  args.num_heads = 3;
  args.num_kv_heads = 1;
  args.head_size = 512;
  EXPECT_NE(cuda::rope_store_refusal(args).find("at most 512 elements"), std::string_view::npos);
}

}  // namespace
}  // namespace fk
