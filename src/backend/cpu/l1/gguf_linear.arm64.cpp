// `gguf_linear` with SDOT: weights are packed when they are first used (quantised/neon_kernels.arm64.h); few tokens
// multiply by packed panels, many in tiles, of SMMLA where the CPU has it.
#include "backend/cpu/l1/gguf_panels.h"
#include "backend/cpu/matmul/bfmmla_tile.arm64.h"
#include "backend/cpu/quantised/mmla_tiles.arm64.h"
#include "backend/cpu/quantised/neon_kernels.arm64.h"
#include "backend/cpu/quantised/neon_tiles.arm64.h"
#include "core/cpu_features.h"
#include "ops/batch_invariant.h"
#include "ops/register.h"

namespace fk {
namespace {

std::string_view without_neon_dot() { return cpu_features().neon_dot ? "" : "this CPU has no SDOT"; }

std::string_view without_neon_i8mm() { return cpu_features().neon_i8mm ? "" : "this CPU has no SMMLA"; }

// Panels are multiplied by one token at a time, tiles by several.
constexpr int64_t kFewTokens = 3;
constexpr int64_t kRowsOfAPiece = 32;
constexpr int64_t kLongRow = 4096;

FK_TARGET_BF16 void store_as_bf16(const float* sums, int64_t count, bf16* to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    bfloat16x8_t low = vcvtq_low_bf16_f32(vld1q_f32(sums + i));
    vst1q_u16(&to[i].bits, vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(low, vld1q_f32(sums + i + 4))));
  }
  for (; i < count; ++i) to[i] = static_cast<bf16>(sums[i]);
}

template <class Tiles>
class GGUFLinearNeon final : public GGUFPanels<NeonFormat, kPanelRows> {
 public:
  explicit GGUFLinearNeon(const Init& init) : GGUFPanels(init, find_neon_format) {}

  std::string_view refuse(Args args) const override {
    for (const NeonFormat* kernels : kernels_)
      if (kernels == nullptr) return "there are no NEON kernels for the format";
    return GGUFLinearCall::refuse(args);
  }

  void forward(Context& ctx, View x, View out) override {
    if (x.size(0) == 0) return;
    pack_once(ctx.pool);
    RoundedParts rounded = round_for_parts(x, ctx);
    if (x.size(0) <= kFewTokens && !batch_invariant())
      by_panels(ctx, rounded, out);
    else
      in_tiles(ctx, rounded, out);
  }

 private:
  void store(const View& out, int64_t t, int64_t n, const float* sums, int64_t count) const {
    if (out.dtype() == DType::kBF16 && !init_.bias && has_bf16_)
      store_as_bf16(sums, count, row_of<bf16>(out, t) + n);
    else
      store_sums(out, t, n, sums, count);
  }

  void by_panels(Context& ctx, const RoundedParts& rounded, const View& out) {
    // Long rows make few pieces, and a thread that is behind is waited for.
    const int64_t rows_of_piece = init_.in_features > kLongRow ? kPanelRows : kRowsOfAPiece;
    each_piece(ctx, rows_of_piece, 1, [&](int, size_t p, int64_t row, int64_t count, int64_t) {
      const RoundedRows& x = rounded.of(rounded_group(p));
      float sums[kFewTokens][kRowsOfAPiece];
      auto multiply = Tiles::kPrefetchPanels ? kernels_[p]->multiply_ahead : kernels_[p]->multiply;
      for (int64_t r = 0; r < count; r += kPanelRows)
        for (int64_t t = 0; t < x.m; ++t)
          multiply({.panel = panel_of(p, row + r), .x = &x, .token = t, .sums = sums[t] + r});
      for (int64_t t = 0; t < x.m; ++t) store(out, t, parts_[p].row + row, sums[t], count);
    });
  }

  void in_tiles(Context& ctx, const RoundedParts& rounded, const View& out) {
    PackedRows packed_32, packed_256;
    for (size_t p = 0; p < parts_.size(); ++p) {
      PackedRows& packed = rounded_group(p) == kRoundedGroup ? packed_32 : packed_256;
      if (packed.codes == nullptr) packed = Tiles::pack(rounded.of(rounded_group(p)), ctx.arena, ctx.pool);
    }
    int64_t m = out.size(0), all_tiles = ceil_div(m, Tiles::kTokens);
    int64_t per_task = std::min(kTaskTiles, all_tiles), blocks = ceil_div(all_tiles, per_task);
    int64_t bytes = ceil_div(Tiles::scratch_bytes(per_task), 4096) * 4096;
    View scratch = ctx.arena.make({{ctx.pool.threads(), bytes}, DType::kU8});
    each_piece(ctx, kTaskRows, blocks, [&](int thread, size_t p, int64_t row, int64_t count, int64_t block) {
      int64_t first = block * per_task, tiles = std::min(per_task, all_tiles - first);
      const float* sums =
          Tiles::multiply({.kernels = kernels_[p],
                           .format = parts_[p].format,
                           .panels = panel_of(p, row),
                           .rows = count,
                           .x = rounded_group(p) == kRoundedGroup ? &packed_32 : &packed_256,
                           .first_tile = first,
                           .tiles = tiles,
                           .scratch = reinterpret_cast<std::byte*>(scratch.ptr<uint8_t>()) + thread * bytes});
      for (int64_t t = first * Tiles::kTokens; t < std::min((first + tiles) * Tiles::kTokens, m); ++t)
        store(out, t, parts_[p].row + row, sums + (t - first * Tiles::kTokens) * kTaskRows, count);
    });
  }

  const bool has_bf16_ = cpu_features().neon_bf16;
};

using GGUFLinearNeonDot = GGUFLinearNeon<DotTiles>;
using GGUFLinearNeonI8mm = GGUFLinearNeon<MmlaTiles>;
FK_IMPLEMENTATION(GGUFLinear, GGUFLinearNeonDot, "cpu.neon_dot", DeviceKind::kCpu, 10, without_neon_dot);
FK_IMPLEMENTATION(GGUFLinear, GGUFLinearNeonI8mm, "cpu.neon_i8mm", DeviceKind::kCpu, 20, without_neon_i8mm);

}  // namespace
}  // namespace fk
