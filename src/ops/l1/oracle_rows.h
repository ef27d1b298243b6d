// Rows of a tensor as double, for oracles whose inner loops would look at the dtype of each element.
#pragma once

#include <vector>

#include "core/tensor.h"

namespace fk {

// Appends the elements of a view of one dimension.
void append_row(const View& row, std::vector<double>& to);

}  // namespace fk
