// Rows of a tensor as double, for oracles whose inner loops would look at the dtype of each element.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace fk {

// Appends the elements of a view of one dimension.
void append_row(const View& row, std::vector<double>& to);

// The rows of a matrix: where they are if they are dense and f64, as those of references are, otherwise a copy.
class DenseRows {
 public:
  explicit DenseRows(const View& matrix);
  const double* row(int64_t i) const { return first_ + i * stride_; }

 private:
  std::vector<double> copy_;
  const double* first_;
  int64_t stride_;
};

// The sum of the products, in an order that suits vectors.
double dot_of_rows(const double* a, const double* b, int64_t n);

}  // namespace fk
