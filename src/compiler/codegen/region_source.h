// The C++ text of kernels that compute several calls at once, row by row.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/loop_nest.h"

namespace fk {

struct ProductProgram;
struct AttentionProgram;

// What the kernel of a region is called with, in the order of `names`: x0, x1, ... and y0, y1, ...
struct RegionArray {
  void* data;
  const int64_t* sizes;
  const int64_t* strides;
};
using RegionFunction = void (*)(const RegionArray* arrays, int64_t first_row, int64_t last_row);

struct RegionText {
  std::string name;                // of the function
  std::string comment;             // what it computes
  std::vector<std::string> names;  // of the arrays
  const LoopProgram* loops = nullptr;
  std::set<std::string> constants = {};             // arrays that no kernel changes: weights
  std::map<std::string, std::string> updated = {};  // outputs that are an input after the kernel, in its memory
  const ProductProgram* products = nullptr;         // instead of `loops`, for CUDA: a kernel with products
  const AttentionProgram* attention = nullptr;      // instead of `loops`
};

// One source with all of them.
std::string region_source(const std::vector<RegionText>& regions);
// The function alone, without its name and comment: equal kernels have equal texts.
std::string region_body(const RegionText& region);

// Whether the kernel reads and writes the memory of this array by two names.
bool shares_memory(const RegionText& region, const std::string& name);

// Elements that the loops of one row touch: how much work a row is.
int64_t row_work(const LoopProgram& loops);

}  // namespace fk
