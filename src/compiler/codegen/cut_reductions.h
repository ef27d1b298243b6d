// Parts of results as results of their own, which exist for one row at a time and are computed before all others.
//
// The best of several groups of experts is a reduction over groups of a reduction over the experts of each. A row's
// loops have one level of reductions, so the inner ones become results that exist for one row at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/algebra/expr.h"

namespace fk {

// The results in terms of inner reductions, which are before them under the names #0, #1, ... The same results
// where there are none.
std::vector<algebra::NamedExpr> cut_reductions(const std::vector<algebra::NamedExpr>& results);
// The same for what a row of a state takes from other elements of the row that it overwrites: a delta rule multiplies
// the whole state of a head by a key before it changes it. Throws NoLoops where it reads other rows.
std::vector<algebra::NamedExpr> cut_overwritten_reads(const std::vector<algebra::NamedExpr>& results);
// Throws NoLoops where a result reads a state that another one overwrites, and does not read it before that, in the row
// that it overwrites: rows are computed by several threads, in any order.
void refuse_overwritten_reads(const std::vector<algebra::NamedExpr>& results);
bool is_cut(std::string_view name);

}  // namespace fk
