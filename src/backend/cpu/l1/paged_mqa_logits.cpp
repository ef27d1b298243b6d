// PagedMQALogits on CPU: the keys of a sequence are gathered once; then pieces of them are multiplied by the heads of
// each query with a matrix product, and the positive products added up.
#include "ops/l1/paged_mqa_logits.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "backend/cpu/attention/kv_rows.h"
#include "backend/cpu/for_items.h"
#include "backend/cpu/matmul/matmul_choice.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

constexpr int64_t kPieceKeys = 512;  // products of 64 heads with them stay in L2

// logits[j] = scale * sum over h of weights[h] * max(0, products[j][h]); a NaN is not negative, so it stays.
FK_SIMD_CLONES void add_positive(const float* __restrict products, int64_t keys, int64_t heads,
                                 const float* __restrict weights, float scale, float* __restrict logits) {
  for (int64_t j = 0; j < keys; ++j)
    logits[j] = scale * lane_sum(heads, [&](int64_t h) {
                  float dot = products[j * heads + h];
                  // Not as one condition around the product, which GCC 12 vectorises wrongly.
                  float positive = dot < 0 ? 0.0f : dot;
                  return weights[h] * positive;
                });
}

class PagedMQALogitsPieces final : public PagedMQALogits {
 public:
  using PagedMQALogits::PagedMQALogits;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    if (!why.empty()) return why;
    if (args[0]->size(0) > 0 && args[0]->stride(1) < init_.head_dim) return "heads must not overlap";
    return refuse_floats({&args[0], &args[1]});
  }

  void forward(Context& ctx, View q, View k_cache, View weights, View seq_lens, View block_table, OptView cu_seqlens_q,
               View logits) override {
    static ThreadPool alone(1);
    const int64_t D = init_.head_dim, H = init_.num_heads, row = logits.size(1) * logits.size(2);
    const auto size = static_cast<int64_t>(dtype_size(q.dtype()));
    const auto* lens = seq_lens.ptr<int32_t>();
    const int32_t* starts = cu_seqlens_q ? cu_seqlens_q->ptr<int32_t>() : nullptr;
    MatmulFunction product = fastest_matmul(q.dtype());
    View cache = k_cache.split_last(1, D);
    auto* products =
        ctx.arena.make({{static_cast<int64_t>(ctx.pool.threads()), kPieceKeys * H}, DType::kF32}).ptr<float>();
    for (int64_t s = 0; s < seq_lens.size(0); ++s) {
      const int64_t first = starts != nullptr ? starts[s] : s, queries = starts != nullptr ? starts[s + 1] - first : 1;
      const int64_t keys = std::max<int64_t>(0, lens[s]), context = keys - queries;
      if (queries == 0) continue;
      Arena::Mark mark = ctx.arena.mark();
      auto* gathered = static_cast<std::byte*>(ctx.arena.make({{std::max<int64_t>(keys, 1), D}, q.dtype()}).data());
      KvRows rows = KvRows::paged(cache, block_table, s);
      for_rows(ctx.pool, keys, D, [&](int64_t begin, int64_t end) {
        for (int64_t j = begin; j < end; ++j)
          std::memcpy(gathered + j * D * size, rows.row(j, 0), static_cast<size_t>(D * size));
      });
      const int64_t pieces = (row + kPieceKeys - 1) / kPieceKeys;
      for_items(ctx.pool, queries * pieces, [&](int thread, int64_t item) {
        const int64_t i = item / pieces, t = first + i, seen = std::clamp<int64_t>(context + i + 1, 0, keys);
        const int64_t begin = item % pieces * kPieceKeys, end = std::min(begin + kPieceKeys, row);
        const int64_t n = std::clamp<int64_t>(seen - begin, 0, end - begin);
        float* to = logits.ptr<float>() + t * logits.stride(0) + begin;
        if (n > 0) {
          float* sums = products + thread * kPieceKeys * H;
          product({.m = n,
                   .n = H,
                   .k = D,
                   .x = gathered + begin * D * size,
                   .x_stride = D,
                   .w = static_cast<const std::byte*>(q.data()) + t * q.stride(0) * size,
                   .w_stride = q.stride(1),
                   .y = sums,
                   .y_stride = H,
                   .dtype = q.dtype(),
                   .y_dtype = DType::kF32},
                  alone);
          add_positive(sums, n, H, weights.ptr<float>() + t * weights.stride(0), static_cast<float>(init_.scale), to);
        }
        std::fill(to + n, to + (end - begin), -std::numeric_limits<float>::infinity());
      });
      ctx.arena.release(mark);
    }
  }
};

FK_IMPLEMENTATION(PagedMQALogits, PagedMQALogitsPieces, "cpu.matmul", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
