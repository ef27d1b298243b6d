// The processes of an evaluation: one that runs a (model, ranks) pair, and those it starts, each with one side.
#pragma once

#include <string>

#include "bench/eval/pair_task.h"
#include "cli/options.h"

namespace fk {

// `eval --pair-task FILE`: runs the sides of a pair in turn and writes item.json beside the file. What an earlier
// process of the same task has finished is kept. A side that fails makes a failed item, not an error.
void run_eval_pair(const std::string& task_file);

// `eval --side-task FILE`: loads the model, with the candidates or without, and writes what it measured.
void run_eval_side(const std::string& task_file, CommonOptions common);

std::string item_path(const PairTask& task);
std::string pair_task_path(const PairTask& task);

// The last line of what a program printed to standard error, without "fastkernels: ".
std::string last_error_line(std::string text);

}  // namespace fk
