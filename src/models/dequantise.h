// Quantised matrices of a checkpoint as elements of a dtype, for models whose products do not take their format.
#pragma once

#include <string>
#include <vector>

#include "core/memory.h"
#include "core/thread_pool.h"
#include "models/checkpoint.h"
#include "models/quantization_config.h"
#include "ops/formats/scaled_format.h"

namespace fk {

// The format in which the checkpoint stores the matrix `name`, "....weight"; nullptr where it is not quantised. Experts
// that are one tensor [E, N, K] have a name without an ending, "experts.down_proj", and their codes and scales are
// "experts.down_proj_packed" and "experts.down_proj_scale". `formats` may give a format to a module that is not
// quantised, such as a router: what the checkpoint has decides.
const ScaledFormat* stored_format(const Checkpoint& checkpoint, const FormatOf& formats, const std::string& name);

// The tensors of such a matrix [N, K], or of such experts [E, N, K], with their names in the checkpoint. Throws Error
// for experts in formats that do not store each row by itself.
std::vector<ParamSpec> stored_tensors(const ScaledFormat& format, const std::string& name, const Shape& shape);

// Rows first .. first + count - 1, where experts have E * N rows. `tensors` are those of stored_tensors(), in order;
// `shape` is that of all rows. Elements are rounded to the dtype.
struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
};
Tensor dequantised(const ScaledFormat& format, const std::vector<View>& tensors, const Shape& shape,
                   const RowRange& rows, DType dtype, ThreadPool& pool);

}  // namespace fk
