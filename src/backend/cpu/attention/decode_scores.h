// Products of four query heads with keys, with the vector instructions of the architecture.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace fk {

// scores[key][4] = q[head] . k[key], for the four heads of q [4][Dh]. k: the address of each key.
void quad_scores(const float* q, const bf16* const* k, int64_t keys, int64_t Dh, float* scores);
void quad_scores(const float* q, const f16* const* k, int64_t keys, int64_t Dh, float* scores);
void quad_scores(const float* q, const float* const* k, int64_t keys, int64_t Dh, float* scores);

}  // namespace fk
