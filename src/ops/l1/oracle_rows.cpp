#include "ops/l1/oracle_rows.h"

#include "core/check.h"
#include "core/element_rows.h"

namespace fk {

void append_row(const View& row, std::vector<double>& to) {
  FK_CHECK(row.rank() == 1);
  const size_t before = to.size();
  to.resize(before + static_cast<size_t>(row.size(0)));
  load_elements(row.data(), row.dtype(), row.stride(0), row.size(0), to.data() + before);
}

DenseRows::DenseRows(const View& matrix) {
  FK_CHECK(matrix.rank() == 2);
  if (matrix.dtype() == DType::kF64 && (matrix.stride(1) == 1 || matrix.size(1) <= 1)) {
    first_ = matrix.ptr<double>();
    stride_ = matrix.stride(0);
    return;
  }
  for (int64_t i = 0; i < matrix.size(0); ++i) append_row(matrix.select(0, i), copy_);
  first_ = copy_.data();
  stride_ = matrix.size(1);
}

double dot_of_rows(const double* a, const double* b, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace fk
