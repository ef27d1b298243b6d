// AttentionPool on CPU: a thread takes a head of a sequence, and its tokens in blocks with an online softmax.
#include "ops/l1/attention_pool.h"

#include <algorithm>
#include <limits>

#include "backend/cpu/for_items.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/vector_math.h"
#include "ops/register.h"

namespace fk {
namespace {

constexpr int64_t kBlock = 64;          // tokens
constexpr int64_t kMostHeadSize = 512;  // sums of a head are on the stack

// One head of one sequence; strides are of rows, in elements.
template <class T>
struct PooledHead {
  const float* query;  // already scaled
  const T *key, *value;
  int64_t key_stride, value_stride, tokens, size;
};

// Leaves the result in sums[size].
template <class T>
FK_INLINE void pool_head_body(const PooledHead<T>& head, float* __restrict sums) {
  float largest = -std::numeric_limits<float>::infinity(), total = 0;
  std::fill_n(sums, head.size, 0.0f);
  for (int64_t first = 0; first < head.tokens; first += kBlock) {
    int64_t count = std::min(kBlock, head.tokens - first);
    float weights[kBlock], before = largest;
    for (int64_t j = 0; j < count; ++j) {
      const T* key = head.key + (first + j) * head.key_stride;
      weights[j] = lane_sum(head.size, [&](int64_t i) { return head.query[i] * load(key[i]); });
      largest = std::max(largest, weights[j]);
    }
    float rescale = vexp(before - largest), sum = 0;
#pragma omp simd
    for (int64_t j = 0; j < kBlock; ++j) weights[j] = j < count ? vexp(weights[j] - largest) : 0.0f;
    for (int64_t j = 0; j < count; ++j) sum += weights[j];
    total = total * rescale + sum;
#pragma omp simd
    for (int64_t i = 0; i < head.size; ++i) sums[i] *= rescale;
    for (int64_t j = 0; j < count; ++j) {
      const T* value = head.value + (first + j) * head.value_stride;
      float weight = weights[j];
#pragma omp simd
      for (int64_t i = 0; i < head.size; ++i) sums[i] += weight * load(value[i]);
    }
  }
  float factor = head.tokens > 0 ? 1 / total : 0.0f;
  for (int64_t i = 0; i < head.size; ++i) sums[i] *= factor;
}

FK_SIMD_CLONES void pool_head(const PooledHead<bf16>& head, float* __restrict sums) { pool_head_body(head, sums); }
FK_SIMD_CLONES void pool_head(const PooledHead<f16>& head, float* __restrict sums) { pool_head_body(head, sums); }
FK_SIMD_CLONES void pool_head(const PooledHead<float>& head, float* __restrict sums) { pool_head_body(head, sums); }

class AttentionPoolHeads final : public AttentionPool {
 public:
  using AttentionPool::AttentionPool;

  std::string_view refuse(Args args) const override {
    if (std::string_view why = refuse_call(args); !why.empty()) return why;
    if (init_.head_size > kMostHeadSize) return "heads have at most 512 elements";
    return refuse_floats({&args[0], &args[1], &args[2], &args[4]});
  }

  void forward(Context& ctx, View query, View key, View value, View cu_seqlens, View out) override {
    const auto* starts = cu_seqlens.ptr<int32_t>();
    int64_t size = init_.head_size, width = init_.num_heads * size;
    float* scaled = ctx.arena.make({{width}, DType::kF32}).ptr<float>();
    with_float(query.dtype(), [&]<class T>(T) {
      for (int64_t i = 0; i < width; ++i) scaled[i] = static_cast<float>(init_.scale) * load(query.ptr<T>()[i]);
      for_items(ctx.pool, out.size(0) * init_.num_heads, [&](int, int64_t item) {
        int64_t s = item / init_.num_heads, at = item % init_.num_heads * size;
        float sums[kMostHeadSize];
        pool_head(PooledHead<T>{scaled + at, row_of<T>(key, starts[s]) + at, row_of<T>(value, starts[s]) + at,
                                key.stride(0), value.stride(0), starts[s + 1] - starts[s], size},
                  sums);
        for (int64_t i = 0; i < size; ++i) store(row_of<T>(out, s)[at + i], sums[i]);
      });
    });
  }
};

FK_IMPLEMENTATION(AttentionPool, AttentionPoolHeads, "cpu.head_per_thread", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
