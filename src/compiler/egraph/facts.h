// Facts: what is known of every expression of a class. Facts of equal expressions must agree; a contradiction means
// that a rule is wrong, and is an error, never overwritten.
#pragma once

#include <string>
#include <vector>

#include "ops/algebra/expr.h"

namespace fk {

struct Facts {
  DType dtype = DType::kF32;
  algebra::Extents shape;
  double low, high;     // bounds of the elements that are numbers
  bool stored = false;  // every element is a number of `dtype`: inputs and casts, and what only moves them

  bool is_float() const { return dtype_is_float(dtype); }
  bool not_negative() const { return low >= 0; }
  // All elements are this one number.
  bool is_number(double value) const { return low == value && high == value; }
};

Facts facts_of(const algebra::Head& head, const std::vector<const Facts*>& inputs);

// Adds what `other` knows; true if it is more than before. Throws Error that names the contradiction.
bool merge_facts(Facts& facts, const Facts& other);

std::string facts_text(const Facts& facts);  // "bf16 [4, 64] in 0 .. 1"

// Whether every number of `from` is one of `to`.
bool holds_all_of(DType to, DType from);

}  // namespace fk
