// The kernel behind advance_step.
#pragma once

#include <cstdint>

namespace fk::cuda {

struct AdvanceRows {
  const int64_t* sampled;
  const int32_t* block_table;
  int width;  // of the table
  int block_size;
  int64_t* positions;
  int32_t* seq_lens;
  int64_t* steps;
  int64_t* input_ids;
  int64_t* slots;
  int32_t* running_sum;
  int sequences;
};
void advance_rows(const AdvanceRows& rows, void* stream);

}  // namespace fk::cuda
