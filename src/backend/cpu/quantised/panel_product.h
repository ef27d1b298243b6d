// PanelProduct: products with small integers by SDOT or VPDPBUSD. Weights are packed once into panels of some rows, 4
// or 8 bits an element, so that a register holds words of four elements of several rows; x is rounded to int8 in groups
// of 32, or in whole rows. Each architecture has its own panels.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/for_items.h"
#include "backend/cpu/quantised/dequantised_product.h"
#include "backend/cpu/quantised/rounded_rows.h"
#include "core/memory.h"

namespace fk {

// Why this CPU cannot multiply by panels; empty if it can.
std::string_view without_panels();

// A matrix in panels.
struct IntPanels {
  static const int64_t kRows;  // of a panel

  int64_t rows = 0, k = 0;
  int64_t group = 0;  // elements that share a scale: 16, or a multiple of 32
  bool nibbles = false, has_minimums = false;
  int8_t values[16] = {};  // of the 4-bit codes
  // Of a step of 32 elements, 16 or 32 bytes for each row: byte b of word j of row r, at (j kRows + r) 4 + b, has
  // element 4 j + b, and in its high half the 16th after it where codes are nibbles.
  Buffer codes;
  Buffer scales;    // f32 [panel][k / group][kRows]
  Buffer minimums;  // likewise: offset * scale, which is subtracted

  int64_t panels() const { return (rows + kRows - 1) / kRows; }
  int64_t panel_bytes() const { return kRows * (nibbles ? k / 2 : k); }
  int64_t groups() const { return k / group; }
};

// Why a matrix cannot be packed; empty if it can.
std::string_view refuse_panels(const ScaledFormat& format, int64_t k);
IntPanels pack_panels(const ScaledFormat& format, std::span<const View> tensors, int64_t rows, int64_t k);

// sums[panel][t][kRows] of all rows of x with some panels from `first` on.
void multiply_panels(const IntPanels& w, int64_t first, int64_t panels, const RoundedRows& x, float* sums);

// kWholeRows: one scale for a row of x. Rows that are multiples of their largest number / 127 are then not changed.
template <class T, bool kWholeRows = false>
class PanelProduct : public QuantisedProductCall<T> {
 public:
  using QuantisedProductCall<T>::QuantisedProductCall;

  std::string_view refuse(Args args) const override {
    for (const typename T::Part& part : this->parts_)
      if (std::string_view why = refuse_panels(*part.format, this->init_.in_features); !why.empty()) return why;
    return QuantisedProductCall<T>::refuse(args);
  }

  void forward(Context& ctx, View x, View out) override {
    if (x.size(0) == 0) return;
    RoundedRows rounded = round_rows(x, kWholeRows ? x.size(1) : kRoundedGroup, ctx.arena, ctx.pool);
    int64_t items = 0;
    for (const IntPanels& part : panels_) items += items_of(part);
    const int64_t sums_of_panel = x.size(0) * IntPanels::kRows;
    View sums = ctx.arena.make({{ctx.pool.threads(), kPanelsOfItem * sums_of_panel}, DType::kF32});
    for_items(ctx.pool, items, [&](int thread, int64_t item) {
      float* own = sums.ptr<float>() + thread * sums.stride(0);
      size_t p = 0;
      for (; item >= items_of(panels_[p]); ++p) item -= items_of(panels_[p]);
      const int64_t first = item * kPanelsOfItem, panels = std::min(kPanelsOfItem, panels_[p].panels() - first);
      multiply_panels(panels_[p], first, panels, rounded, own);
      for (int64_t i = 0; i < panels; ++i) {
        const int64_t row = (first + i) * IntPanels::kRows, count = std::min(IntPanels::kRows, panels_[p].rows - row);
        for (int64_t t = 0; t < x.size(0); ++t)
          this->store_sums(out, t, this->parts_[p].row + row, own + i * sums_of_panel + t * IntPanels::kRows, count);
      }
    });
  }

 protected:
  void prepare() override {
    panels_.clear();
    for (const typename T::Part& part : this->parts_)
      if (refuse_panels(*part.format, this->init_.in_features).empty())
        panels_.push_back(pack_panels(*part.format, this->tensors(part), part.rows, this->init_.in_features));
  }

  std::vector<IntPanels> panels_;  // of each part

 private:
  static constexpr int64_t kPanelsOfItem = 4;
  static int64_t items_of(const IntPanels& part) { return (part.panels() + kPanelsOfItem - 1) / kPanelsOfItem; }
};

}  // namespace fk
