// evaluate: the elements of expressions, in double. It is the reference for everything that rewrites an expression or
// makes a kernel of it, and meant to be read, not to be fast.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/tensor.h"
#include "ops/algebra/expr.h"

namespace fk::algebra {

// The elements of an array in row-major order.
using Values = std::shared_ptr<const std::vector<double>>;

struct Environment {
  std::function<Values(const Head& input)> input;
  std::function<Values(const Expr& call, const std::vector<Values>& inputs)> call = nullptr;  // where there are calls
};

// Throws Error where an input has another number of elements than its expression says.
std::vector<Values> evaluate(const std::vector<Expr>& results, const Environment& environment);

Values load_values(const View& view);
void store_values(const std::vector<double>& values, const View& view);  // rounded to the view's dtype

// One application of a scalar function, and one rounding.
double apply(Function function, double a, double b = 0, double c = 0);
double rounded(double x, DType dtype);

}  // namespace fk::algebra
