// The common part of the CPU's implementations of `gguf_linear`: which calls they take, and storing sums.
#pragma once

#include "backend/cpu/quantised/rounded_rows.h"
#include "backend/cpu/row_kernel.h"
#include "ops/l1/gguf_linear.h"

namespace fk {

class GGUFLinearCall : public GGUFLinear {
 public:
  using GGUFLinear::GGUFLinear;

  std::string_view refuse(Args args) const override {
    auto is_float = [](DType t) { return t == DType::kBF16 || t == DType::kF16 || t == DType::kF32; };
    const View &x = *args[0], &y = *args[1];
    if (!is_float(x.dtype()) || !is_float(y.dtype())) return "x or the output is not bf16, f16 or f32";
    if (init_.bias && !is_float(init_.dtype)) return "the bias is not bf16, f16 or f32";
    if (!x.rows_contiguous() || !y.rows_contiguous()) return "rows of x or of the output are not contiguous";
    return {};
  }

 protected:
  // out[t][n .. n + count) = sums + bias
  void store_sums(const View& out, int64_t t, int64_t n, const float* sums, int64_t count) const {
    with_float(out.dtype(), [&]<class Out>(Out) {
      Out* y = row_of<Out>(out, t) + n;
      if (!init_.bias) {
        for (int64_t i = 0; i < count; ++i) y[i] = static_cast<Out>(sums[i]);
        return;
      }
      with_float(init_.dtype, [&]<class Bias>(Bias) {
        const Bias* b = bias().template ptr<Bias>() + n;
        for (int64_t i = 0; i < count; ++i) y[i] = static_cast<Out>(sums[i] + static_cast<float>(b[i]));
      });
    });
  }
  // Elements of x that have one scale, for a part: those that meet a block of its format, at least 32.
  int64_t rounded_group(size_t part) const {
    return parts_[part].format->block_elements >= kMaxBlockElements ? kMaxBlockElements : kRoundedGroup;
  }
  // x rounded for each part; parts with equal groups share one.
  struct RoundedParts {
    RoundedRows groups_of_32, groups_of_256;
    const RoundedRows& of(int64_t group) const { return group == kRoundedGroup ? groups_of_32 : groups_of_256; }
  };
  RoundedParts round_for_parts(const View& x, Context& ctx) const {
    RoundedParts rounded;
    for (size_t p = 0; p < parts_.size(); ++p) {
      int64_t group = rounded_group(p);
      RoundedRows& rows = group == kRoundedGroup ? rounded.groups_of_32 : rounded.groups_of_256;
      if (rows.codes == nullptr) rows = round_rows(x, group, ctx.arena, ctx.pool);
    }
    return rounded;
  }
  const std::byte* row_bytes(size_t part, int64_t row) const {
    return static_cast<const std::byte*>(weight(part).data()) + row * weight(part).stride(0);
  }
};

}  // namespace fk
