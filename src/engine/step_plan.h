// StepPlan: which tokens of which sequences run in one step. Made by the scheduler, run by the executor.
#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "engine/request.h"

namespace fk {

struct PlannedRow {
  RequestId request = 0;
  int64_t first = 0;  // position of the first token of this step: that many tokens are in the states before it
  int64_t count = 0;  // tokens of this step
  // The last token of this step is the last one there is: its logits give the next token. False for all but the last
  // chunk of a prompt.
  bool draws = false;
  // The token at `first` is the one that the previous step draws, which the host does not know yet. Only with count 1.
  bool takes_drawn = false;
  // Guesses of the tokens after the last one there is: the last of the `count` tokens. A row that draws has the logits
  // of the token before them and of each of them. kUnknownGuess: a draft model gives it.
  std::vector<int64_t> drafts = {};
  // Of that many of its tokens, from the first on, the logits are wanted beside those of draws_rows(): they tell how
  // likely the prompt's own next tokens are.
  int64_t prompt_logits = 0;
  bool first_step = false;               // since admission: the slot's states must be zero before it runs
  std::span<const int32_t> blocks = {};  // of all tokens up to first + count, by page; -1: freed, outside every window
  int32_t state_slot = -1;               // of the per-sequence states

  int64_t draws_rows() const { return draws ? 1 + std::ssize(drafts) : 0; }  // rows of logits
};

// Rows that decode (count 1, first > 0) before the others. A row may read pages that another row of the step completes:
// keys and values of all rows are stored before any is read.
struct StepPlan {
  std::vector<PlannedRow> rows;
  std::vector<int32_t> tables;  // the blocks of all rows, one row behind the other

  StepPlan() = default;
  StepPlan(StepPlan&&) = default;  // rows point into the tables
  StepPlan& operator=(StepPlan&&) = default;

  int64_t tokens() const {
    int64_t sum = 0;
    for (const PlannedRow& row : rows) sum += row.count;
    return sum;
  }
  int64_t drawn_tokens() const {  // rows of logits
    int64_t sum = 0;
    for (const PlannedRow& row : rows) sum += row.draws_rows();
    return sum;
  }
  int64_t guesses() const {
    int64_t sum = 0;
    for (const PlannedRow& row : rows) sum += std::ssize(row.drafts);
    return sum;
  }
  int64_t prompt_logits() const {
    int64_t sum = 0;
    for (const PlannedRow& row : rows) sum += row.prompt_logits;
    return sum;
  }
  bool empty() const { return rows.empty(); }
};

}  // namespace fk
