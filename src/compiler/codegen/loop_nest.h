// LoopNest: the loops that compute a call, between its definition and the text of a kernel.
//
// The results of a definition are grouped by the loops around them. One item of a nest is one index of all dimensions
// but the last; its statements run over the last. So a norm is a fold and a store for each row, a softmax two folds, a
// table of exponentials and a store.
//
// Several calls become one kernel if all of their nests run over the same rows: then the loop over rows is outside all
// nests, and a result that only later calls read exists for one row at a time.
#pragma once

#include <cstdint>
#include <map>
#include <set>
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
  std::string guard = {};  // of a store: only where this holds
  bool moved = false;      // of a store: the bits of an element, which is only copied
  bool of_row = false;     // it does not change with l1, l2, ...: it stands before their loops
};

struct LoopNest {
  std::vector<int64_t> leads;  // extents of the loops around the statements; the first may vary
  std::string rows_of;         // the output whose first extent that is
  std::vector<LoopStatement> statements;
};

// How a kernel uses an array.
struct ArrayUse {
  DType dtype = DType::kF32;
  size_t rank = 0;
  bool written = false;
  bool dense_rows = false;  // behind the first dimension there must be no gaps
  bool dense = false;       // there must be no gaps at all
  int row_axis = 0;         // the dimension that rows are counted in
};

// A result that exists for one row at a time.
struct LocalArray {
  DType dtype = DType::kF32;
  int64_t elements = 0;
};

struct LoopProgram {
  std::string refusal;  // why there are no such loops; empty: there are
  std::vector<LoopNest> nests;
  std::map<std::string, ArrayUse> arrays;  // inputs and outputs, by name
  std::map<std::string, LocalArray> locals;
  std::vector<std::vector<double>> tables;    // table0, table1, ...
  std::map<std::string, std::string> guards;  // elements that exist only where this holds: "x0_p[v1 * x0_s0 + i]"
};

// Of the results of a definition. In the text `name_p` is a pointer to an array, `name_sD` its stride in dimension D.
LoopProgram lower_to_loops(const std::vector<algebra::NamedExpr>& results);

// Of several calls, in order, as one kernel: a result may be an input of later ones. Those in `locals` exist for one
// row at a time, as arrays of that name. `name_n` is the first extent of an array.
LoopProgram lower_to_row_loops(const std::vector<algebra::NamedExpr>& results, const std::set<std::string>& locals);

}  // namespace fk
