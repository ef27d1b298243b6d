// RowValues: single elements of an expression as texts in C, where an index is a text, too.
//
// Loops (loop_nest.h) run over fixed extents. Attention runs over keys whose number varies and whose places come from
// tables, so its texts are made element by element: an element of a view, a reshape or a gather is an element of its
// input at another index.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/c_text.h"
#include "compiler/codegen/loop_nest.h"

namespace fk {

// An element or an index.
struct RowValue {
  Code code;
  // Of an integer: it is `high * factor + low` with 0 <= low < factor. 0: not known. A page and a place in it.
  int64_t factor = 0;
  std::string high = {}, low = {};
  int64_t below = 0;  // 0 <= it < below; 0: not known
  // Of an integer: it is `keys` times the text "key" plus `rest`.
  int64_t keys = 0;
  std::string rest = {};
  bool linear = true;  // false: it depends on "key" in another way

  bool depends_on_key() const { return keys != 0 || !linear; }
};
RowValue index_value(std::string text, int64_t below = 0);
RowValue key_value();  // the text "key"
RowValue number_value(int64_t n);

// An extent when the kernel runs: that of an array, times `factor`, less `minus`. Without an array: `factor`.
struct BatchExtent {
  std::string array = {};
  size_t dim = 0;
  int64_t factor = 1, minus = 0;

  std::string text() const;  // "(x4_n1 * 16)"
};

// Where an element of an input is.
struct RowAddress {
  std::string array;            // "x1"
  std::vector<RowValue> index;  // by dimension
};

class RowValues {
 public:
  // Inputs of these expressions are all arrays that a kernel is given: extents of a batch are those of one of them.
  explicit RowValues(const std::vector<algebra::Expr>& results);

  // An element; throws NoLoops where there is no text. `at`: its index. Sums that it needs are added to lines().
  RowValue element(const algebra::Expr& e, const std::vector<RowValue>& at);
  // Where an element is that is only moved. An index of a gather that does not depend on "key" is of the row:
  // `hoisted` gets its text, and "source" stands for it.
  RowAddress address(const algebra::Expr& e, std::vector<RowValue> at, std::string& hoisted);
  // "x1_p[source * x1_s0 + d]" without the brackets.
  std::string offset(const RowAddress& address) const;

  // Stands for every element of an expression.
  void give_name(const algebra::Expr& e, Code code) { named_[e.id()] = std::move(code); }

  BatchExtent extent_of(int64_t extent) const;

  // Variables that elements need, in order.
  const std::vector<std::string>& lines() const { return lines_; }
  std::vector<std::string> variables() const;  // their names
  const std::map<std::string, ArrayUse>& arrays() const { return used_; }
  // Of all inputs; those of a batch are at least kVaryingExtent.
  const std::map<std::string, algebra::Extents>& extents() const { return extents_; }

 private:
  RowValue mapped(const algebra::Expr& e, const std::vector<RowValue>& at);
  RowValue summed(const algebra::Expr& e, const std::vector<RowValue>& at);
  RowValue loaded(const algebra::Expr& e, const std::vector<RowValue>& at);

  std::map<const algebra::ExprNode*, Code> named_;
  std::map<std::string, std::string> known_;  // variables by what they are
  std::vector<std::string> lines_;
  std::map<std::string, ArrayUse> used_;
  std::map<std::string, algebra::Extents> extents_;
  int sums_ = 0;
  bool in_sum_ = false;
};

}  // namespace fk
