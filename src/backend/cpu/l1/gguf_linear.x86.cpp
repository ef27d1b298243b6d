// `gguf_linear` with AVX-512 VNNI: weights are packed when they are first used (quantised/vnni_kernels.x86.h). Few
// tokens are rounded to int8 and multiply by packed panels, many are multiplied by widened ones (widened_panels.x86.h).
#include "backend/cpu/l1/gguf_panels.h"
#include "backend/cpu/quantised/vnni_kernels.x86.h"
#include "backend/cpu/quantised/widened_panels.x86.h"
#include "core/cpu_features.h"
#include "ops/register.h"

namespace fk {
namespace {

std::string_view without_vnni() { return cpu_features().avx512_vnni ? "" : "this CPU has no AVX-512 VNNI"; }

constexpr int64_t kTokensOfATurn = 64;  // with one panel, which stays in the cache
constexpr int64_t kMostRows = 64;       // of a piece of work

class GGUFLinearVnni final : public GGUFPanels<VnniFormat, kPanelRows> {
 public:
  explicit GGUFLinearVnni(const Init& init) : GGUFPanels(init, find_vnni_format) {}

  std::string_view refuse(Args args) const override {
    for (const VnniFormat* kernels : kernels_)
      if (kernels == nullptr) return "there are no VNNI kernels for the format";
    return GGUFLinearCall::refuse(args);
  }

  void forward(Context& ctx, View x, View out) override {
    if (x.size(0) == 0) return;
    pack_once(ctx.pool);
    if (!widening_pays_off(x, out, init_.bias ? init_.dtype : x.dtype()))
      return by_panels(ctx, round_for_parts(x, ctx), out);
    const bf16* offsets = init_.bias ? bias().ptr<bf16>() : nullptr;
    for (size_t p = 0; p < parts_.size(); ++p)
      multiply_widened(ctx, x, out, parts_[p].row, parts_[p].rows, offsets, [&](int64_t panel, WidenTask task) {
        task.next_panel = kWidenedPanels * panel_bytes(p);
        kernels_[p]->widen(panel_of(p, panel * kPanelRows), task);
      });
  }

 private:
  void by_panels(Context& ctx, const RoundedParts& rounded, const View& out) {
    // A thread that is behind is waited for, so there must be some pieces for each.
    const int64_t rows_of_piece = out.size(1) >= kMostRows * 4 * ctx.pool.threads() ? kMostRows : kPanelRows;
    each_piece(ctx, rows_of_piece, 1, [&](int, size_t p, int64_t row, int64_t count, int64_t) {
      const RoundedRows& x = rounded.of(rounded_group(p));
      float sums[kTokensOfATurn][kMostRows];
      for (int64_t token = 0; token < x.m; token += kTokensOfATurn) {
        const int64_t tokens = std::min(kTokensOfATurn, x.m - token);
        kernels_[p]->multiply({.panel = panel_of(p, row),
                               .panels = ceil_div(count, kPanelRows),
                               .x = &x,
                               .token = token,
                               .tokens = tokens,
                               .sums = sums[0],
                               .sums_stride = kMostRows});
        for (int64_t t = 0; t < tokens; ++t) store_sums(out, token + t, parts_[p].row + row, sums[t], count);
      }
    });
  }
};

FK_IMPLEMENTATION(GGUFLinear, GGUFLinearVnni, "cpu.avx512_vnni", DeviceKind::kCpu, 10, without_vnni);

}  // namespace
}  // namespace fk
