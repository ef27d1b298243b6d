// GroupedMatmul: `moe_grouped_gemm` by one of the matrix products of backend/cpu/matmul, expert by expert.
#pragma once

#include <cstring>

#include "backend/cpu/matmul/matmul.h"
#include "ops/batch_invariant.h"
#include "ops/l1/moe_grouped_gemm.h"

namespace fk {

using MatmulFunction = void (*)(const MatmulArgs&, ThreadPool&);

// Experts without rows are not read. kFewRows multiplies experts with fewer rows than kMinRows.
template <MatmulFunction kProduct, DType kDType, int64_t kMinRows = 0, MatmulFunction kFewRows = kProduct>
class GroupedMatmul : public MoeGroupedGemm {
 public:
  using MoeGroupedGemm::MoeGroupedGemm;

  std::string_view refuse(Args args) const override {
    const View &x = *args[0], &y = *args[3];
    if (!init_.weight_format.empty()) return "its weights are elements, without a format";
    if (x.dtype() != kDType || y.dtype() != kDType || init_.dtype != kDType)
      return kDType == DType::kBF16  ? "x, the weight and the output are not all bf16"
             : kDType == DType::kF16 ? "x, the weight and the output are not all f16"
                                     : "x, the weight and the output are not all f32";
    if (args[1]->dtype() != DType::kI32 || args[2]->dtype() != DType::kI32)
      return "sorted_token_ids and expert_offsets must be i32";
    if (!x.rows_contiguous() || !y.rows_contiguous() || !args[1]->contiguous() || !args[2]->contiguous())
      return "rows of x or of the output, or the ids, are not contiguous";
    return {};
  }

  void forward(Context& ctx, View x, View sorted_token_ids, View expert_offsets, View out) override {
    const auto* pairs = sorted_token_ids.ptr<int32_t>();
    const auto* offsets = expert_offsets.ptr<int32_t>();
    const int64_t rows = sorted_token_ids.size(0);
    int64_t touched = 0;
    for (int64_t e = 0; e < init_.num_experts; ++e) touched += offsets[e] < offsets[e + 1];
    // Decoding: one row for each expert, so that x and the output are used where they are.
    if (touched == rows) {
      for (int64_t e = 0; e < init_.num_experts; ++e)
        if (offsets[e] < offsets[e + 1]) {
          int64_t pair = pairs[offsets[e]];
          multiply(ctx, e, x.narrow(0, input_row(pair), 1), out.narrow(0, pair, 1));
        }
      return;
    }
    // Products need the rows of an expert at equal distances.
    View grouped = ctx.arena.make({{rows, init_.in_features}, kDType});
    View results = ctx.arena.make({{rows, init_.out_features}, kDType});
    copy_rows(
        ctx, rows, [&](int64_t i) { return std::pair(at(x, input_row(pairs[i])), at(grouped, i)); }, init_.in_features);
    for (int64_t e = 0; e < init_.num_experts; ++e)
      if (int64_t m = offsets[e + 1] - offsets[e]; m > 0)
        multiply(ctx, e, grouped.narrow(0, offsets[e], m), results.narrow(0, offsets[e], m));
    copy_rows(
        ctx, rows, [&](int64_t i) { return std::pair(at(results, i), at(out, pairs[i])); }, init_.out_features);
  }

 private:
  static std::byte* at(const View& v, int64_t row) {
    return static_cast<std::byte*>(v.data()) + row * v.stride(0) * static_cast<int64_t>(dtype_size(kDType));
  }

  template <class FromTo>
  static void copy_rows(Context& ctx, int64_t rows, FromTo&& from_to, int64_t width) {
    constexpr int64_t kBytesPerTask = 64 << 10;
    const size_t bytes = static_cast<size_t>(width) * dtype_size(kDType);
    const int64_t grain = kBytesPerTask / static_cast<int64_t>(bytes + 1) + 1;
    ctx.pool.parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        auto [from, to] = from_to(i);
        std::memcpy(to, from, bytes);
      }
    });
  }

  void multiply(Context& ctx, int64_t expert, const View& x, const View& y) const {
    const View w = weight().select(0, expert);
    MatmulArgs args{.m = x.size(0),
                    .n = init_.out_features,
                    .k = init_.in_features,
                    .x = x.data(),
                    .x_stride = x.stride(0),
                    .w = w.data(),
                    .w_stride = w.stride(0),
                    .bias = init_.bias ? bias()->select(0, expert).data() : nullptr,
                    .y = y.data(),
                    .y_stride = y.stride(0),
                    .dtype = kDType,
                    .y_dtype = kDType};
    // As in linear_matmul.h.
    if (batch_invariant() ? kDType == DType::kF32 : args.m < kMinRows)
      kFewRows(args, ctx.pool);
    else
      kProduct(args, ctx.pool);
  }
};

}  // namespace fk
