// The common operations on a block of scores between the two products.
#pragma once

#include <cstdint>

namespace fk {

// Scores are scale * (q . k), through the soft cap where there is one.
struct ScoreRule {
  float scale = 1;
  float soft_cap = 0;  // cap * tanh(score / cap); 0: none
};

// Products q . k become scores.
void finish_scores(float* scores, int64_t n, const ScoreRule& rule);

// Scores of keys a query does not see become -infinity. scores [keys][lanes], one query per lane; lane l sees keys
// first[l] .. last[l]-1, counted like `key`, which is the first one here.
void mask_scores(float* scores, int64_t keys, int64_t lanes, int64_t key, const int32_t* first, const int32_t* last);

}  // namespace fk
