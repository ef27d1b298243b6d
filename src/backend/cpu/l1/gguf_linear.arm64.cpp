// `gguf_linear` with SDOT: weights are packed when they are first used (quantised/neon_kernels.arm64.h); few tokens
// multiply by packed panels, many in tiles, of SMMLA where the CPU has it.
#include "backend/cpu/for_pieces.h"
#include "backend/cpu/l1/gguf_linear_call.h"
#include "backend/cpu/matmul/bfmmla_tile.arm64.h"
#include "backend/cpu/quantised/mmla_tiles.arm64.h"
#include "backend/cpu/quantised/neon_kernels.arm64.h"
#include "backend/cpu/quantised/neon_tiles.arm64.h"
#include "core/cpu_features.h"
#include "core/file_pages.h"
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
class GGUFLinearNeon final : public GGUFLinearCall {
 public:
  explicit GGUFLinearNeon(const Init& init) : GGUFLinearCall(init) {
    for (const Part& part : parts_) kernels_.push_back(find_neon_format(part.format->name));
  }

  std::string_view refuse(Args args) const override {
    for (const NeonFormat* kernels : kernels_)
      if (kernels == nullptr) return "there are no NEON kernels for the format";
    return GGUFLinearCall::refuse(args);
  }

  void forward(Context& ctx, View x, View out) override {
    if (x.size(0) == 0) return;
    if (packed_.empty()) pack(ctx.pool);
    RoundedParts rounded = round_for_parts(x, ctx);
    if (x.size(0) <= kFewTokens && !batch_invariant())
      by_panels(ctx, rounded, out);
    else
      in_tiles(ctx, rounded, out);
  }

 protected:
  void prepare() override { packed_.clear(); }

 private:
  static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

  void store(const View& out, int64_t t, int64_t n, const float* sums, int64_t count) const {
    if (out.dtype() == DType::kBF16 && !init_.bias && has_bf16_)
      store_as_bf16(sums, count, row_of<bf16>(out, t) + n);
    else
      store_sums(out, t, n, sums, count);
  }

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
  const std::byte* panel_of(size_t part, int64_t row) const {
    return packed_[part].data() + row / kPanelRows * panel_bytes(part);
  }

  // Pieces of all parts one after the other, so that a small part does not leave threads idle.
  template <class Body>
  void each_piece(Context& ctx, int64_t rows_of_piece, int64_t per_piece, Body&& body) {
    int64_t pieces = 0;
    for (const Part& part : parts_) pieces += ceil_div(part.rows, rows_of_piece);
    for_pieces(ctx.pool, pieces * per_piece, [&](int thread, int64_t i) {
      int64_t piece = i / per_piece;
      size_t p = 0;
      for (; piece >= ceil_div(parts_[p].rows, rows_of_piece); ++p) piece -= ceil_div(parts_[p].rows, rows_of_piece);
      int64_t row = piece * rows_of_piece;
      body(thread, p, row, std::min(rows_of_piece, parts_[p].rows - row), i % per_piece);
    });
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
  std::vector<const NeonFormat*> kernels_;
  std::vector<Buffer> packed_;  // the panels of each part
};

using GGUFLinearNeonDot = GGUFLinearNeon<DotTiles>;
using GGUFLinearNeonI8mm = GGUFLinearNeon<MmlaTiles>;
FK_IMPLEMENTATION(GGUFLinear, GGUFLinearNeonDot, "cpu.neon_dot", DeviceKind::kCpu, 10, without_neon_dot);
FK_IMPLEMENTATION(GGUFLinear, GGUFLinearNeonI8mm, "cpu.neon_i8mm", DeviceKind::kCpu, 20, without_neon_i8mm);

}  // namespace
}  // namespace fk
