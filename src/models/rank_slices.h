// Which part of every parameter of a model one rank holds.
//
// No operator states how its weights are divided: a rank's tree already has the sizes of its own part, so the part
// follows from the parameter of the whole model (one rank) and the one of this rank, which has the same name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/thread_pool.h"
#include "ops/param.h"

namespace fk {

// All dimensions of a parameter but the last are counted as rows; a vector has rows of one element.
struct RankSlice {
  struct Rows {
    int64_t from = 0;  // of the whole parameter
    int64_t to = 0;    // of this rank's
    int64_t count = 0;
  };

  bool held = true;  // false: this rank has no such parameter (a bias that only the first rank adds)
  TensorSpec spec;   // of this rank's
  int64_t whole_columns = 1;
  int64_t first_column = 0;
  int64_t columns = 1;
  std::vector<Rows> rows = {};  // rows of this rank that none fills are zero (the padding of a vocabulary)
};

using RankSlices = std::map<std::string, RankSlice>;

// By name, for the parameters of which rank `rank` of `ranks` holds a part only or nothing. Throws Error for parameters
// that cannot be divided.
RankSlices rank_slices(const std::vector<ParamSpec>& whole, const std::vector<ParamSpec>& mine, int64_t rank,
                       int64_t ranks);

// Copies what `slice` takes of rows first_row .. of the whole parameter, converted to the dtype of `to`, which is this
// rank's parameter. Both are contiguous and on the CPU.
void copy_slice(const View& whole_rows, int64_t first_row, const RankSlice& slice, const View& to, ThreadPool& pool);

}  // namespace fk
