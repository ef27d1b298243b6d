// The text of loops in C++, for all kinds of kernels.
#pragma once

#include <string>
#include <vector>

#include "compiler/codegen/loop_nest.h"
#include "compiler/egraph/rewrite.h"

namespace fk {

// The array that a statement writes to: "y0_p", or that of a local result.
std::string array_of(const LoopStatement& statement, const LoopProgram& loops);

// The assignment of one element by a store.
std::string store_text(const LoopStatement& store, const std::string& array);

// One statement of a nest; `array` is what a store writes to.
std::string statement_text(const LoopStatement& statement, const std::string& array, const std::string& indent);

// What a fold begins with, and one step of it.
std::string fold_start(const LoopStatement& fold);
std::string folded(algebra::Fold fold, const std::string& so_far, const std::string& value);

// The constant arrays of a kernel, and the numbers of one.
std::string tables_text(const LoopProgram& loops);
std::string table_text(const std::vector<double>& table);

// Definitions of the functions of elements that a text calls: written so that compilers vectorise them.
std::string functions_in(const std::string& kernels);

// All of their texts: kernels with other functions are other kernels.
std::string functions_version();

// Lines of a comment.
std::string in_comment(const std::string& text);

// The cheapest expressions that the rules of the algebra find equal to these. What the rules did is added to `rules`.
std::vector<algebra::NamedExpr> cheapest(const std::vector<algebra::NamedExpr>& results,
                                         std::vector<RuleStatistics>* rules = nullptr);

}  // namespace fk
