// LoopNest: the loops that compute a call, between its definition and the text of a kernel.
//
// The results of a definition are grouped by the loops around them. One item of a nest is one index of all dimensions
// but the last; its statements run over the last. So a norm is a fold and a store for each row, a softmax two folds, a
// table of exponentials and a store.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ops/algebra/expr.h"

namespace fk {

// Extents of at least this are those of a batch: they vary from call to call, and only the first dimension may have
// one.
inline constexpr int64_t kVaryingExtent = 1'000'000;

struct LoopStatement {
  enum class Kind : uint8_t {
    kScalar,  // a variable
    kFold,    // a variable: a reduction over i
    kFill,    // a local array of `count` elements
    kStore,   // elements of an output
  };
  Kind kind;
  std::string name;   // of the variable, array or output
  DType dtype;        // float, double, i64 or bool; of an output what it is stored as
  std::string value;  // an expression in C of loads, variables, l0, l1, ... and i
  int64_t count = 1;  // of i
  algebra::Fold fold = algebra::Fold::kSum;
  std::string index = {};  // of a store: the element
};

struct LoopNest {
  std::vector<int64_t> leads;  // extents of the loops around the statements; the first may vary
  std::string rows_of;         // the output whose first extent that is
  std::vector<LoopStatement> statements;
};

// How much a kernel reads of an array.
struct ArrayUse {
  DType dtype = DType::kF32;
  size_t rank = 0;
  bool written = false;
};

struct LoopProgram {
  std::string refusal;  // why there are no such loops; empty: there are
  std::vector<LoopNest> nests;
  std::map<std::string, ArrayUse> arrays;  // inputs and outputs, by name
};

// "fk::bf16": the type of an element in candidates.
std::string_view element_name(DType dtype);

// Of the results of a definition. In the text `name_p` is a pointer to an array, `name_sD` its stride in dimension D.
LoopProgram lower_to_loops(const std::vector<algebra::NamedExpr>& results);

}  // namespace fk
