// Finds what the wrong elements of an output contain instead of the right values: those of the next row, twice the
// right values, the content before the call.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/memory.h"
#include "validate/compare.h"

namespace fk {

// One dimension of a dense tensor.
struct DimensionOf {
  std::string name;  // name of one index: "row", "head", "column"
  int64_t size = 0;
  int64_t stride = 0;  // in elements
};

struct WrongOutput {
  const View& got;
  const View& want;  // f64, or the dtype of integer outputs
  const Bounds& bounds;
  const std::vector<uint8_t>& wrong;  // 1 where an element is wrong
  const std::vector<DimensionOf>& dimensions;
  std::optional<uint8_t> poison = {};           // the byte that the output was filled with before the call
  std::span<const Tensor* const> earlier = {};  // the same output of earlier calls on other data, the latest last
};

// One or two sentences, or empty if no pattern fits. A pattern must hold for 99 % of the wrong elements.
std::string pattern_sentence(const WrongOutput& output);

}  // namespace fk
