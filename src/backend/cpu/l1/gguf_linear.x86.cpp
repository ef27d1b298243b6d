// `gguf_linear` with AVX-512 VNNI: weights are packed when they are first used (quantised/vnni_kernels.x86.h). Few
// tokens are rounded to int8 and multiply by packed panels, many are multiplied by widened ones (widened_panels.x86.h).
#include "backend/cpu/for_pieces.h"
#include "backend/cpu/l1/gguf_linear_call.h"
#include "backend/cpu/quantised/vnni_kernels.x86.h"
#include "backend/cpu/quantised/widened_panels.x86.h"
#include "core/cpu_features.h"
#include "core/file_pages.h"
#include "ops/register.h"

namespace fk {
namespace {

std::string_view without_vnni() { return cpu_features().avx512_vnni ? "" : "this CPU has no AVX-512 VNNI"; }

constexpr int64_t kTokensOfATurn = 64;  // with one panel, which stays in the cache
constexpr int64_t kMostRows = 64;       // of a piece of work

class GGUFLinearVnni final : public GGUFLinearCall {
 public:
  explicit GGUFLinearVnni(const Init& init) : GGUFLinearCall(init) {
    for (const Part& part : parts_) kernels_.push_back(find_vnni_format(part.format->name));
  }

  std::string_view refuse(Args args) const override {
    for (const VnniFormat* kernels : kernels_)
      if (kernels == nullptr) return "there are no VNNI kernels for the format";
    return GGUFLinearCall::refuse(args);
  }

  void forward(Context& ctx, View x, View out) override {
    if (x.size(0) == 0) return;
    if (packed_.empty()) pack(ctx.pool);
    if (!widening_pays_off(x, out, init_.bias ? init_.dtype : x.dtype()))
      return by_panels(ctx, round_for_parts(x, ctx), out);
    const bf16* offsets = init_.bias ? bias().ptr<bf16>() : nullptr;
    for (size_t p = 0; p < parts_.size(); ++p)
      multiply_widened(ctx, x, out, parts_[p].row, parts_[p].rows, offsets, [&](int64_t panel, WidenTask task) {
        task.next_panel = kWidenedPanels * panel_bytes(p);
        kernels_[p]->widen(packed_[p].data() + panel * panel_bytes(p), task);
      });
  }

 protected:
  void prepare() override { packed_.clear(); }

 private:
  static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

  // On all threads, which prepare() does not have.
  void pack(ThreadPool& pool) {
    std::vector<Buffer> packed;  // all, or none where memory is too small
    for (size_t p = 0; p < parts_.size(); ++p) {
      int64_t panels = ceil_div(parts_[p].rows, kPanelRows), bytes = panel_bytes(p);
      Buffer& to = packed.emplace_back(static_cast<size_t>(panels * bytes));
      for_pieces(pool, panels, [&](int, int64_t panel) {
        int64_t row = panel * kPanelRows;
        kernels_[p]->pack({.w = row_bytes(p, row),
                           .w_stride = weight(p).stride(0),
                           .rows = std::min(kPanelRows, parts_[p].rows - row),
                           .k = init_.in_features,
                           .panel = to.data() + panel * bytes});
      });
      // Weights of a mapped file are not needed a second time.
      release_file_pages({static_cast<const std::byte*>(weight(p).data()), weight(p).size_bytes()});
    }
    packed_ = std::move(packed);
  }
  int64_t panel_bytes(size_t part) const { return kPanelRows * parts_[part].format->row_bytes(init_.in_features); }

  // Pieces of all parts one after the other, so that a small part does not leave threads idle.
  void by_panels(Context& ctx, const RoundedParts& rounded, const View& out) {
    // A thread that is behind is waited for, so there must be some pieces for each.
    const int64_t rows_of_piece = out.size(1) >= kMostRows * 4 * ctx.pool.threads() ? kMostRows : kPanelRows;
    int64_t pieces = 0;
    for (const Part& part : parts_) pieces += ceil_div(part.rows, rows_of_piece);
    for_pieces(ctx.pool, pieces, [&](int, int64_t piece) {
      size_t p = 0;
      for (; piece >= ceil_div(parts_[p].rows, rows_of_piece); ++p) piece -= ceil_div(parts_[p].rows, rows_of_piece);
      const int64_t row = piece * rows_of_piece, count = std::min(rows_of_piece, parts_[p].rows - row);
      const RoundedRows& x = rounded.of(rounded_group(p));
      float sums[kTokensOfATurn][kMostRows];
      for (int64_t token = 0; token < x.m; token += kTokensOfATurn) {
        const int64_t tokens = std::min(kTokensOfATurn, x.m - token);
        kernels_[p]->multiply({.panel = packed_[p].data() + row / kPanelRows * panel_bytes(p),
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

  std::vector<const VnniFormat*> kernels_;
  std::vector<Buffer> packed_;  // the panels of each part
};

FK_IMPLEMENTATION(GGUFLinear, GGUFLinearVnni, "cpu.avx512_vnni", DeviceKind::kCpu, 10, without_vnni);

}  // namespace
}  // namespace fk
