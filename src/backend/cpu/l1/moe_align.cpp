// MoeAlign on CPU: a counting sort, whose pieces are counted and placed in parallel where there are many pairs.
#include "ops/l1/moe_align.h"

#include <algorithm>

#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

class MoeAlignCountingSort final : public MoeAlign {
 public:
  using MoeAlign::MoeAlign;

  std::string_view refuse(Args args) const override {
    for (const OptView& v : args) {
      if (v->dtype() != DType::kI32) return "ids and offsets must be i32";
      if (!v->rows_contiguous()) return "the last dimension of its tensors must be contiguous";
    }
    return {};
  }

  void forward(Context& ctx, View topk_ids, View sorted_token_ids, View expert_offsets) override {
    const int64_t T = topk_ids.size(0), E = init_.num_experts;
    const int64_t pieces = std::clamp<int64_t>(T * init_.top_k / kElementsPerTask, 1, ctx.pool.threads());
    // counts[piece][expert]: how many pairs, then where the piece's first goes.
    auto* counts = ctx.arena.make({{pieces, E}, DType::kI32}).ptr<int32_t>();
    auto for_pieces = [&](auto&& body) {
      ctx.pool.parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
        for (int64_t piece = begin; piece < end; ++piece)
          for (int64_t t = T * piece / pieces; t < T * (piece + 1) / pieces; ++t)
            for (int64_t j = 0; j < init_.top_k; ++j)
              body(counts + piece * E, row_of<int32_t>(topk_ids, t)[j], t * init_.top_k + j);
      });
    };
    std::fill_n(counts, pieces * E, 0);
    for_pieces([](int32_t* count, int32_t expert, int64_t) { ++count[expert]; });
    auto* offsets = expert_offsets.ptr<int32_t>();
    int32_t at = 0;
    for (int64_t e = 0; e < E; ++e) {
      offsets[e] = at;
      for (int64_t piece = 0; piece < pieces; ++piece) {
        int32_t count = counts[piece * E + e];
        counts[piece * E + e] = at;
        at += count;
      }
    }
    offsets[E] = at;
    auto* sorted = sorted_token_ids.ptr<int32_t>();
    for_pieces(
        [&](int32_t* next, int32_t expert, int64_t pair) { sorted[next[expert]++] = static_cast<int32_t>(pair); });
  }
};

FK_IMPLEMENTATION(MoeAlign, MoeAlignCountingSort, "cpu.counting_sort", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
