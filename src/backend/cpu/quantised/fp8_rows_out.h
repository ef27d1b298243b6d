// The common part of CPU kernels whose output is FP8 e4m3 in groups: rows are computed as floats, then rounded.
#pragma once

#include "backend/cpu/for_items.h"
#include "backend/cpu/quantised/fp8_groups.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/forward_context.h"

namespace fk {

inline std::string_view refuse_fp8_rows(const View& x, const View& q, const View& scales) {
  if (x.dtype() != DType::kBF16 && x.dtype() != DType::kF16 && x.dtype() != DType::kF32)
    return "x is not bf16, f16 or f32";
  if (q.dtype() != DType::kF8E4M3 || scales.dtype() != DType::kF32) return "the outputs are not FP8 and f32";
  if (!x.rows_contiguous() || !q.rows_contiguous() || !scales.rows_contiguous())
    return "the last dimension of its tensors must be contiguous";
  return {};
}

// row(t, values) writes a row of q's width as floats.
template <class Row>
void for_fp8_rows(Context& ctx, const View& q, const View& scales, Row&& row) {
  const int64_t rows = q.size(0), width = q.size(1);
  if (rows == 0) return;
  View values = ctx.arena.make({{ctx.pool.threads(), width}, DType::kF32});
  for_items(ctx.pool, rows, [&](int thread, int64_t t) {
    float* own = values.ptr<float>() + thread * width;
    row(t, own);
    round_to_fp8(own, width, scales.size(1), static_cast<uint8_t*>(q.data()) + t * q.stride(0),
                 row_of<float>(scales, t));
  });
}

}  // namespace fk
