// GroupedTopk on CPU: the scores of a row, the best groups, then its best experts one after the other.
#include "ops/l1/grouped_topk.h"

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/vector_math.h"
#include "ops/register.h"

namespace fk {
namespace {

constexpr int32_t kNoKey = INT32_MIN;  // below the key of every number

template <class T>
FK_INLINE void sigmoids_body(const T* x, float* scores, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) scores[i] = 1.0f / (1.0f + vexp(-load(x[i])));
}
FK_SIMD_CLONES void sigmoids(const bf16* x, float* scores, int64_t n) { sigmoids_body(x, scores, n); }
FK_SIMD_CLONES void sigmoids(const f16* x, float* scores, int64_t n) { sigmoids_body(x, scores, n); }
FK_SIMD_CLONES void sigmoids(const float* x, float* scores, int64_t n) { sigmoids_body(x, scores, n); }

template <class T>
FK_INLINE void score_softmax_body(const T* x, float* scores, int64_t n) {
  float largest = -std::numeric_limits<float>::infinity(), sum = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) largest = load(x[i]) > largest ? load(x[i]) : largest;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    scores[i] = vexp(load(x[i]) - largest);
    sum += scores[i];
  }
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) scores[i] /= sum;
}
FK_SIMD_CLONES void score_softmax(const bf16* x, float* scores, int64_t n) { score_softmax_body(x, scores, n); }
FK_SIMD_CLONES void score_softmax(const f16* x, float* scores, int64_t n) { score_softmax_body(x, scores, n); }
FK_SIMD_CLONES void score_softmax(const float* x, float* scores, int64_t n) { score_softmax_body(x, scores, n); }

// Integers in the order of score + bias.
FK_SIMD_CLONES void keys_of(const float* scores, const float* bias, int32_t* keys, int64_t n) {
  if (bias == nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) keys[i] = order_key(scores[i]);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) keys[i] = order_key(scores[i] + bias[i]);
  }
}

FK_SIMD_CLONES int32_t largest_of(const int32_t* keys, int64_t n) {
  int32_t largest = kNoKey;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) largest = largest > keys[i] ? largest : keys[i];
  return largest;
}

class GroupedTopkByKeys final : public GroupedTopk {
 public:
  explicit GroupedTopkByKeys(const Init& init) : GroupedTopk(init), sigmoid_(init.scoring_func == "sigmoid") {
    check(init);
  }

  std::string_view refuse(Args args) const override {
    if (args[2]->dtype() != DType::kF32 || args[3]->dtype() != DType::kI32)
      return "topk_weights must be f32 and topk_ids i32";
    if (!args[2]->rows_contiguous() || !args[3]->rows_contiguous()) return "rows of the outputs are not contiguous";
    if (args[1] && (args[1]->dtype() != DType::kF32 || !args[1]->contiguous()))
      return "e_score_correction_bias must be f32 and contiguous";
    return refuse_floats({&args[0]});
  }

  void forward(Context& ctx, View gating_output, OptView bias, View topk_weights, View topk_ids) override {
    const int64_t E = init_.num_experts, rows = gating_output.size(0);
    auto* all_scores = ctx.arena.make({{rows, E}, DType::kF32}).ptr<float>();
    auto* all_keys = ctx.arena.make({{rows, E}, DType::kI32}).ptr<int32_t>();
    auto* all_groups = ctx.arena.make({{rows, init_.num_expert_group}, DType::kI32}).ptr<int32_t>();
    const float* biases = bias ? bias->ptr<float>() : nullptr;
    with_float(gating_output.dtype(), [&]<class T>(T) {
      for_rows(ctx.pool, rows, E * init_.top_k, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          float* scores = all_scores + t * E;
          int32_t* keys = all_keys + t * E;
          if (sigmoid_)
            sigmoids(row_of<T>(gating_output, t), scores, E);
          else
            score_softmax(row_of<T>(gating_output, t), scores, E);
          keys_of(scores, biases, keys, E);
          if (init_.topk_group < init_.num_expert_group)
            drop_groups(keys, biases != nullptr, all_groups + t * init_.num_expert_group);
          choose(scores, keys, row_of<float>(topk_weights, t), row_of<int32_t>(topk_ids, t));
        }
      });
    });
  }

 private:
  // Experts of all but the best groups get a key below all others.
  void drop_groups(int32_t* keys, bool with_bias, int32_t* values) const {
    const int64_t groups = init_.num_expert_group, size = init_.num_experts / groups;
    for (int64_t g = 0; g < groups; ++g) {
      int32_t first = kNoKey, second = kNoKey;
      for (int64_t i = g * size; i < (g + 1) * size; ++i) {
        second = std::max(second, std::min(first, keys[i]));
        first = std::max(first, keys[i]);
      }
      bool both = with_bias && size > 1;
      values[g] = order_key(from_order_key(first) + (both ? from_order_key(second) : 0.0f));
    }
    for (int64_t n = 0; n < init_.topk_group; ++n)
      *std::find(values, values + groups, largest_of(values, groups)) = kNoKey;
    for (int64_t g = 0; g < groups; ++g)
      if (values[g] != kNoKey) std::fill(keys + g * size, keys + (g + 1) * size, kNoKey);
  }

  void choose(const float* scores, int32_t* keys, float* weights, int32_t* ids) const {
    const int64_t E = init_.num_experts;
    float sum = 0;
    for (int64_t j = 0; j < init_.top_k; ++j) {
      int64_t at = std::find(keys, keys + E, largest_of(keys, E)) - keys;
      ids[j] = static_cast<int32_t>(at);
      weights[j] = scores[at];
      sum += weights[j];
      keys[at] = kNoKey;
    }
    auto factor = static_cast<float>(init_.routed_scaling_factor);
    if (init_.renormalize) factor /= sum;
    for (int64_t j = 0; j < init_.top_k; ++j) weights[j] *= factor;
  }

  const bool sigmoid_;
};

FK_IMPLEMENTATION(GroupedTopk, GroupedTopkByKeys, "cpu.order_keys", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
