// What the collective operators do on every device: pack, call the communicator, unpack. A backend gives the function
// that copies rows in its memory.
#pragma once

#include "ops/forward_context.h"

namespace fk {

// Constructor arguments that all collective operators begin with: world_size ranks call the operator together.
struct CollectiveInit {
  int64_t world_size = 1;
  int64_t rank = 0;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("world_size", world_size);
    v("rank", rank);
  }
};

// Copies rows between tensors [T, N] of one dtype and one shape, whose rows are contiguous.
using RowCopy = void (*)(Context& ctx, const View& from, const View& to);

// x and out as in AllReduce, AllGather, ReduceScatter and AllToAll. dim: 0 for blocks of rows, -1 for blocks of
// columns. Throws Error where the context's communicator has another number of ranks.
void run_all_reduce(Context& ctx, const CollectiveInit& init, const View& x, const View& out, RowCopy copy);
void run_all_gather(Context& ctx, const CollectiveInit& init, int64_t dim, const View& x, const View& out,
                    RowCopy copy);
void run_reduce_scatter(Context& ctx, const CollectiveInit& init, int64_t dim, const View& x, const View& out,
                        RowCopy copy);
void run_all_to_all(Context& ctx, const CollectiveInit& init, const View& x, const View& out, RowCopy copy);

// Throws Error unless dim is 0 or -1.
void check_collective_dim(int64_t dim);

}  // namespace fk
