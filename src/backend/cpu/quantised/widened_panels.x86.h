// Products of many bf16 tokens with quantised weights, on CPUs with AMX: weights become bf16 where the product needs
// them, in the L1 cache. Tiles of int8 are not faster: a group of 32 codes is half of what they multiply, and scaling
// the sums of each group takes longer than the bf16 product.
#pragma once

#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/quantised/panel_product.h"
#include "backend/cpu/quantised/vnni_kernels.x86.h"
#include "core/cpu_features.h"
#include "ops/batch_invariant.h"
#include "ops/forward_context.h"

namespace fk {

inline constexpr int64_t kWidenedPanels = 2;  // of a block of the product

// Whether x is multiplied by widened weights. bias: its dtype, or that of x where there is none; many_tokens: with
// which that is faster, 24 where products of int8 are the other choice.
inline bool widening_pays_off(const View& x, const View& out, DType bias, int64_t many_tokens = 24) {
  return x.size(0) >= many_tokens && x.dtype() == DType::kBF16 && bias == DType::kBF16 && out.dtype() != DType::kF16 &&
         cpu_features().amx_bf16 && !batch_invariant();
}

// Columns first .. first + rows - 1 of out. widen(panel, task): rows of a panel as bf16.
template <class Widen>
void multiply_widened(Context& ctx, const View& x, const View& out, int64_t first, int64_t rows, const bf16* bias,
                      const Widen& widen) {
  struct Blocks {
    const Widen& widen;
    int64_t panels;

    static void fill(const void* of, int64_t n, int64_t k, int64_t steps, bf16* block) {
      const auto& self = *static_cast<const Blocks*>(of);
      constexpr int64_t kPanelElements = kPanelRows * kWidenedRow;
      for (int64_t i = 0; i < kWidenedPanels && n / kPanelRows + i < self.panels; ++i)
        self.widen(n / kPanelRows + i,
                   WidenTask{.first = k, .count = steps * kRoundedGroup, .to = block + i * kPanelElements});
    }
  };
  const Blocks blocks{widen, (rows + kPanelRows - 1) / kPanelRows};
  matmul_amx_bf16_of({.m = x.size(0),
                      .n = rows,
                      .k = x.size(1),
                      .x = x.data(),
                      .x_stride = x.stride(0),
                      .bias = bias == nullptr ? nullptr : bias + first,
                      .y = static_cast<std::byte*>(out.data()) + first * static_cast<int64_t>(dtype_size(out.dtype())),
                      .y_stride = out.stride(0),
                      .dtype = DType::kBF16,
                      .y_dtype = out.dtype()},
                     {&blocks, Blocks::fill}, ctx.pool);
}

// A panel of IntPanels.
void widen_panel(const IntPanels& w, int64_t panel, const WidenTask& task);

template <class T, bool kWholeRows = false>
class WidenedPanelProduct final : public PanelProduct<T, kWholeRows> {
 public:
  using PanelProduct<T, kWholeRows>::PanelProduct;

  void forward(Context& ctx, View x, View out) override {
    if (!widening_pays_off(x, out, this->init_.bias ? this->init_.dtype : x.dtype()))
      return PanelProduct<T, kWholeRows>::forward(ctx, x, out);
    const auto* bias = static_cast<const bf16*>(this->bias_data());
    for (size_t p = 0; p < this->panels_.size(); ++p)
      multiply_widened(ctx, x, out, this->parts_[p].row, this->parts_[p].rows, bias,
                       [&](int64_t panel, const WidenTask& task) { widen_panel(this->panels_[p], panel, task); });
  }
};

}  // namespace fk
