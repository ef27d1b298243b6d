// TopkSoftmax on CPU: exponentials of a row, then its largest elements one after the other.
#include "ops/l1/topk_softmax.h"

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/vector_math.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE int32_t order_keys_body(const T* x, int32_t* keys, int64_t n) {
  int32_t largest = INT32_MIN;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) {
    keys[i] = order_key(load(x[i]));
    largest = largest > keys[i] ? largest : keys[i];
  }
  return largest;
}

FK_SIMD_CLONES int32_t order_keys(const bf16* x, int32_t* keys, int64_t n) { return order_keys_body(x, keys, n); }
FK_SIMD_CLONES int32_t order_keys(const f16* x, int32_t* keys, int64_t n) { return order_keys_body(x, keys, n); }
FK_SIMD_CLONES int32_t order_keys(const float* x, int32_t* keys, int64_t n) { return order_keys_body(x, keys, n); }

FK_SIMD_CLONES int32_t largest_key(const int32_t* keys, int64_t n) {
  int32_t largest = INT32_MIN;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) largest = largest > keys[i] ? largest : keys[i];
  return largest;
}

// Sum of e^(x - largest) over a row of keys.
FK_SIMD_CLONES float exp_sum_of_keys(const int32_t* keys, float largest, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += vexp(from_order_key(keys[i]) - largest);
  return sum;
}

class TopkSoftmaxByKeys final : public TopkSoftmax {
 public:
  using TopkSoftmax::TopkSoftmax;

  std::string_view refuse(Args args) const override {
    if (args[1]->dtype() != DType::kF32 || args[2]->dtype() != DType::kI32)
      return "topk_weights must be f32 and topk_ids i32";
    if (!args[1]->rows_contiguous() || !args[2]->rows_contiguous()) return "rows of the outputs are not contiguous";
    return refuse_floats({&args[0]});
  }

  void forward(Context& ctx, View gating_output, View topk_weights, View topk_ids) override {
    const int64_t E = init_.num_experts, rows = gating_output.size(0);
    auto* all_keys = ctx.arena.make({{rows, E}, DType::kI32}).ptr<int32_t>();
    with_float(gating_output.dtype(), [&]<class T>(T) {
      for_rows(ctx.pool, rows, E * init_.top_k, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          int32_t* keys = all_keys + t * E;
          int32_t first = order_keys(row_of<T>(gating_output, t), keys, E);
          choose(keys, first, row_of<float>(topk_weights, t), row_of<int32_t>(topk_ids, t));
        }
      });
    });
  }

 private:
  void choose(int32_t* keys, int32_t first, float* weights, int32_t* ids) const {
    const int64_t E = init_.num_experts;
    const float largest = from_order_key(first);
    float sum = init_.renormalize ? 0 : exp_sum_of_keys(keys, largest, E);
    for (int64_t j = 0; j < init_.top_k; ++j) {
      int32_t key = j == 0 ? first : largest_key(keys, E);
      int64_t at = std::find(keys, keys + E, key) - keys;
      ids[j] = static_cast<int32_t>(at);
      weights[j] = vexp(from_order_key(key) - largest);
      if (init_.renormalize) sum += weights[j];
      keys[at] = INT32_MIN;  // below the key of every number
    }
    for (int64_t j = 0; j < init_.top_k; ++j) weights[j] /= sum;
  }
};

FK_IMPLEMENTATION(TopkSoftmax, TopkSoftmaxByKeys, "cpu.order_keys", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
