// PanelProduct: products with small integers by SDOT. Weights are packed once into panels of eight rows, 4 or 8 bits an
// element, so that a register holds words of four elements of four rows; x is rounded to int8 in groups of 32, or in
// whole rows.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/for_items.h"
#include "backend/cpu/quantised/dequantised_product.h"
#include "backend/cpu/quantised/rounded_rows.h"
#include "core/cpu_features.h"
#include "core/memory.h"

namespace fk {

inline std::string_view without_sdot() { return cpu_features().neon_dot ? "" : "this CPU has no SDOT"; }

inline constexpr int64_t kPanelRows = 8;

// A matrix in panels.
struct IntPanels {
  int64_t rows = 0, k = 0;
  int64_t group = 0;  // elements that share a scale: 16, or a multiple of 32
  bool nibbles = false, has_minimums = false;
  int8_t values[16] = {};  // of the 4-bit codes
  // [panel][k / 32][128]: byte 32 j + 4 r + b has element 4 j + b of row r in its low half and the 16th after it in its
  // high half; or [panel][k / 4][8][4] bytes.
  Buffer codes;
  Buffer scales;    // f32 [panel][k / group][8]
  Buffer minimums;  // likewise: offset * scale, which is subtracted

  int64_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  int64_t groups() const { return k / group; }
};

// Why a matrix cannot be packed; empty if it can.
std::string_view refuse_panels(const ScaledFormat& format, int64_t k);
IntPanels pack_panels(const ScaledFormat& format, std::span<const View> tensors, int64_t rows, int64_t k);

// sums[t][8] of all rows of x with one panel.
void multiply_panel(const IntPanels& w, int64_t panel, const RoundedRows& x, float* sums);

// kWholeRows: one scale for a row of x. Rows that are multiples of their largest number / 127 are then not changed.
template <class T, bool kWholeRows = false>
class PanelProduct final : public QuantisedProductCall<T> {
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
    int64_t all = 0;
    for (const IntPanels& part : panels_) all += part.panels();
    View sums = ctx.arena.make({{ctx.pool.threads(), x.size(0) * kPanelRows}, DType::kF32});
    int64_t items = (all + kPanelsOfItem - 1) / kPanelsOfItem;
    for_items(ctx.pool, items, [&](int thread, int64_t item) {
      float* own = sums.ptr<float>() + thread * sums.stride(0);
      for (int64_t i = item * kPanelsOfItem; i < std::min((item + 1) * kPanelsOfItem, all); ++i) {
        size_t p = 0;
        int64_t panel = i;
        for (; panel >= panels_[p].panels(); ++p) panel -= panels_[p].panels();
        multiply_panel(panels_[p], panel, rounded, own);
        int64_t row = panel * kPanelRows, count = std::min(kPanelRows, panels_[p].rows - row);
        for (int64_t t = 0; t < x.size(0); ++t)
          this->store_sums(out, t, this->parts_[p].row + row, own + t * kPanelRows, count);
      }
    });
  }

 private:
  static constexpr int64_t kPanelsOfItem = 4;

  void prepare() override {
    panels_.clear();
    for (const typename T::Part& part : this->parts_)
      if (refuse_panels(*part.format, this->init_.in_features).empty())
        panels_.push_back(pack_panels(*part.format, this->tensors(part), part.rows, this->init_.in_features));
  }

  std::vector<IntPanels> panels_;
};

}  // namespace fk
