// The product that the CPU's implementations of `fp8_linear` have in common: many tokens, or no better instructions.
#pragma once

#include "backend/cpu/quantised/dequantised_product.h"
#include "backend/cpu/quantised/fp8_rows.h"
#include "ops/l1/fp8_linear.h"

namespace fk {

class Fp8LinearDequantised : public DequantisedProduct<Fp8Linear> {
 public:
  using DequantisedProduct<Fp8Linear>::DequantisedProduct;

 protected:
  void unpack(const Part& part, int64_t row, const View& to) const override;
};

}  // namespace fk
