// ProductProgram: products of a few rows, with what is computed of the rows before and of the sums after.
//
// A block of a kernel computes all rows for itself, then sums of some columns. What becomes of the sums is computed
// element by element, so a task is a set of elements and the columns that each of them needs: one for an activation,
// two for gate and up.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/loop_nest.h"

namespace fk {

// The most rows that such a kernel takes.
inline constexpr int64_t kMostProductRows = 8;
// Sums that an element may need.
inline constexpr size_t kMostSums = 4;

// x W^T + b by its names in a program.
struct Product {
  std::string name;                  // of the result in expressions: "p0"
  std::string output;                // the output that it is; may be empty
  algebra::Expr x;                   // [T, length], in terms of inputs and of earlier results
  std::string weight, bias;          // inputs; the bias may be empty
  int64_t length = 0, features = 0;  // of the weight [features, length]
  DType dtype = DType::kBF16;        // of rows and weights
  DType stored = DType::kBF16;       // what sums are rounded to
};

// Elements of results, and what they are made of.
struct ProductTask {
  std::vector<int64_t> leads;  // extents of l1, l2, ...
  int64_t count = 1;           // of i
  struct Sum {
    size_t product = 0;
    std::string column;  // in terms of l1, l2, ... and i

    friend bool operator==(const Sum&, const Sum&) = default;
  };
  std::vector<Sum> sums;  // sum0, sum1, ... in texts
  struct Store {
    std::vector<LoopStatement> scalars;  // that it needs, in order
    LoopStatement element;
  };
  std::vector<Store> stores;

  int64_t elements() const;
};

// What a kernel takes.
struct ProductLimits {
  int64_t rows = 1;                    // in a cut for several; 1: more do not fit a block's shared memory
  std::set<std::string> aligned = {};  // arrays whose address and strides must be multiples of 16 bytes
};

struct ProductProgram {
  std::string refusal;  // why there is none; empty: there is
  LoopProgram rows;     // what is computed of each row first; all of its results are local
  std::string x;        // the local that is multiplied
  int64_t length = 0;
  DType dtype = DType::kBF16;
  std::vector<std::string> kept;  // locals of `rows` that are outputs, too
  std::vector<Product> products;
  std::vector<ProductTask> tasks;
  std::map<std::string, ArrayUse> arrays;  // inputs and outputs of all of it
  std::string rows_of;                     // one whose first extent is the number of rows
  ProductLimits limits;                    // of its kernel for CUDA, once it was written
};

// Of the results of calls in order, in terms of inputs, products and earlier results. Those in `locals` are no outputs.
ProductProgram lower_products(const std::vector<algebra::NamedExpr>& results, const std::vector<Product>& products,
                              const std::set<std::string>& locals);

}  // namespace fk
