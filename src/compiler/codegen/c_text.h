// Texts in C for values and indices, of which loops are written.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ops/algebra/expr.h"

namespace fk {

// Thrown where there are no such loops; lower_to_loops catches it.
struct NoLoops : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The index in one dimension: a sum of multiples of the loop variables (the last is i), or a text.
struct Index {
  int64_t start = 0;
  std::vector<int64_t> factors;
  std::string text = {};  // not empty: this instead
  bool text_uses_i = false;

  // Not for texts.
  void add(const Index& other, int64_t factor) {
    start += factor * other.start;
    for (size_t v = 0; v < factors.size(); ++v) factors[v] += factor * other.factors[v];
  }
  bool uses_i() const { return text.empty() ? factors.back() != 0 : text_uses_i; }
  bool is_zero() const {
    return text.empty() && start == 0 && std::all_of(factors.begin(), factors.end(), [](int64_t f) { return f == 0; });
  }
};

std::string index_text(const Index& index);
// Where in `from` an element of its reshape to `to` is, where each dimension of `from` is split, or several of them,
// which do not vary, are joined. Throws NoLoops for others.
std::vector<Index> index_before_reshape(const algebra::Extents& from, const algebra::Extents& to,
                                        const std::vector<Index>& at, size_t num_variables);

// A value in C, of type float, double, int64_t or bool.
struct Code {
  std::string text;
  DType dtype;
  std::optional<double> number = {};  // where it is a constant
  std::string element = {};           // where it is only moved: the element, as it is stored
  DType element_dtype = DType::kF32;
};

// What a value of this dtype is computed in: float, double, int64_t or bool.
DType computed_as(DType dtype);
std::string_view c_name(DType computed);     // "float"
std::string_view element_name(DType dtype);  // "fk::bf16": the type of an element in candidates
std::string number_code(double value, DType as);
std::string converted(const Code& code, DType to);
std::string unwrapped(const std::string& text);                      // without the parentheses around all of it
Code rounded(const Code& x, DType to);                               // to what would be stored
Code applied(const algebra::Expr& map, const std::vector<Code>& x);  // a scalar function

}  // namespace fk
