// The common part of implementations of `gguf_linear` that multiply by packed panels: panels are packed when they are
// first used, and rows are divided among threads.
#pragma once

#include <algorithm>
#include <vector>

#include "backend/cpu/for_pieces.h"
#include "backend/cpu/l1/gguf_linear_call.h"
#include "core/file_pages.h"

namespace fk {

// Format: the kernels of a weight format, nullptr where there are none for it; kRows: of a panel.
template <class Format, int64_t kRows>
class GGUFPanels : public GGUFLinearCall {
 public:
  GGUFPanels(const Init& init, const Format* (*find)(std::string_view name)) : GGUFLinearCall(init) {
    for (const Part& part : parts_) kernels_.push_back(find(part.format->name));
  }

 protected:
  void prepare() override { packed_.clear(); }

  static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

  // On all threads, which prepare() does not have.
  void pack_once(ThreadPool& pool) {
    if (!packed_.empty()) return;
    std::vector<Buffer> packed;  // all, or none where memory is too small
    for (size_t p = 0; p < parts_.size(); ++p) {
      int64_t panels = ceil_div(parts_[p].rows, kRows), bytes = panel_bytes(p);
      Buffer& to = packed.emplace_back(static_cast<size_t>(panels * bytes));
      for_pieces(pool, panels, [&](int, int64_t panel) {
        int64_t row = panel * kRows;
        kernels_[p]->pack({.w = row_bytes(p, row),
                           .w_stride = weight(p).stride(0),
                           .rows = std::min(kRows, parts_[p].rows - row),
                           .k = init_.in_features,
                           .panel = to.data() + panel * bytes});
      });
      // Weights of a mapped file are not needed a second time.
      release_file_pages({static_cast<const std::byte*>(weight(p).data()), weight(p).size_bytes()});
    }
    packed_ = std::move(packed);
  }
  int64_t panel_bytes(size_t part) const { return kRows * parts_[part].format->row_bytes(init_.in_features); }
  const std::byte* panel_of(size_t part, int64_t row) const {
    return packed_[part].data() + row / kRows * panel_bytes(part);
  }

  // body(thread, part, first row, rows, i of per_piece): pieces of all parts one after the other, so that a small part
  // does not leave threads idle.
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

  std::vector<const Format*> kernels_;

 private:
  std::vector<Buffer> packed_;  // the panels of each part
};

}  // namespace fk
