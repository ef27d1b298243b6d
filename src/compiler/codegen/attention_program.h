// AttentionProgram: attention as the texts that a kernel with an online softmax is made of.
//
// The mask is a predicate on the indices of a query and a key. All of its parts compare the key with something of the
// query's row, so the keys that a query sees are an interval, and no kernel looks at others.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/codegen/row_values.h"

namespace fk {

struct AttentionProgram {
  std::string refusal;              // why there is none; empty: there is
  int64_t kv_heads = 0, group = 0;  // heads of keys, and of queries that share one
  int64_t query_size = 0, value_size = 0;
  DType dtype = DType::kBF16;
  // Whether weights may be rounded to `dtype` before they are multiplied with values. The definition does not say so;
  // the tolerance of an operator may.
  bool rounds_weights = false;

  // Texts. `l0` is the row of a query, `head` of a key and `g` in its group, `key` the key, `source` what the place of
  // its keys depends on: the sequence.
  std::vector<std::string> lines;        // variables of a row
  std::vector<std::string> first, last;  // a query sees keys from the largest to before the smallest
  std::string source;                    // of a row; empty: all rows have the same keys
  std::string q, k, v;                   // elements: "x0_p + l0 * x0_s0"
  std::string score;                     // of "dot"
  std::string sink;                      // empty: there is none
  BatchExtent keys;                      // how many there can be
  std::string out;                       // the array "y0": dense rows of heads, as many as its first extent

  bool one_row_a_source() const { return source == "l0"; }
  // All of `first` or `last` as one text: "larger(larger(a, b), c)".
  std::string first_seen() const;
  std::string last_seen() const;

  std::map<std::string, ArrayUse> arrays;
  std::set<std::string> packed;                   // arrays that are loaded and stored by packs
  std::map<std::string, algebra::Extents> fixed;  // extents that arrays must have; those of a batch may differ
};

// Of the results of one call.
AttentionProgram lower_attention(const std::vector<algebra::NamedExpr>& results);

}  // namespace fk
