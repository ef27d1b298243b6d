// TopKPerRow on CPU: the k-th largest by partial sorting of keys that order like the floats, then one pass in order.
#include "ops/l1/top_k_per_row.h"

#include <algorithm>
#include <functional>

#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

FK_SIMD_CLONES void make_order_keys(const float* x, int64_t n, int32_t* keys) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) keys[i] = order_key(x[i]);
}

class TopKPerRowPartialSort final : public TopKPerRow {
 public:
  using TopKPerRow::TopKPerRow;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context& ctx, View logits, View positions, View indices) override {
    const int64_t T = logits.size(0), row = logits.size(1) * logits.size(2), k = init_.top_k;
    auto* scratch = ctx.arena.make({{T, 2 * row}, DType::kI32}).ptr<int32_t>();
    ctx.pool.parallel_for(T, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t n = std::clamp<int64_t>(positions.ptr<int64_t>()[t * positions.stride(0)] + 1, 0, row);
        int32_t *keys = scratch + t * 2 * row, *sorted = keys + row, *to = indices.ptr<int32_t>() + t * indices.stride(0);
        int64_t count = 0;
        if (n <= k) {
          for (; count < n; ++count) to[count] = static_cast<int32_t>(count);
        } else {
          make_order_keys(logits.ptr<float>() + t * logits.stride(0), n, keys);
          std::copy_n(keys, n, sorted);
          std::nth_element(sorted, sorted + k - 1, sorted + n, std::greater<>());
          const int32_t least = sorted[k - 1];
          int64_t equal = std::count(sorted, sorted + k, least);  // how many of those with this value are wanted
          for (int64_t j = 0; j < n; ++j) {
            const bool wanted = keys[j] > least || (keys[j] == least && equal-- > 0);
            if (wanted) to[count++] = static_cast<int32_t>(j);
          }
        }
        std::fill(to + count, to + k, -1);
      }
    });
  }
};

FK_IMPLEMENTATION(TopKPerRow, TopKPerRowPartialSort, "cpu.partial_sort", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
