#include "ops/collectives.h"

#include <algorithm>

#include "core/check.h"
#include "core/communicator.h"
#include "core/error.h"

namespace fk {
namespace {

Communicator& ranks_of(const Context& ctx, const CollectiveInit& init) {
  if (init.world_size == 1) return single_rank();
  int64_t present = ctx.communicator != nullptr ? ctx.communicator->size() : 1;
  if (present != init.world_size)
    throw Error(
        "An operation between {} ranks was called in a run that has {}; start it with --tp {}, or use reduce_results "
        "false in a scenario.",
        init.world_size, present, init.world_size);
  FK_CHECK(ctx.communicator->rank() == init.rank, "a rank runs the tree of another rank");
  return *ctx.communicator;
}

// A communicator takes contiguous tensors only.
View packed(Context& ctx, const View& x, RowCopy copy) {
  if (x.contiguous()) return x;
  View dense = ctx.arena.make(x.spec());
  copy(ctx, x, dense);
  return dense;
}

template <class Call>
void into_packed(Context& ctx, const View& out, RowCopy copy, Call&& call) {
  if (out.contiguous()) return call(out);
  View dense = ctx.arena.make(out.spec());
  call(dense);
  copy(ctx, dense, out);
}

// Scratch memory is free again when the operator returns.
class Scratch {
 public:
  explicit Scratch(Arena& arena) : arena_(arena), mark_(arena.mark()) {}
  ~Scratch() { arena_.release(mark_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

 private:
  Arena& arena_;
  Arena::Mark mark_;
};

}  // namespace

void check_collective_dim(int64_t dim) {
  if (dim != 0 && dim != -1) throw Error("A collective operator has no dim {}; use 0 for rows or -1 for columns.", dim);
}

void run_all_reduce(Context& ctx, const CollectiveInit& init, const View& x, const View& out, RowCopy copy) {
  Communicator& ranks = ranks_of(ctx, init);
  if (ranks.size() == 1) return copy(ctx, x, out);
  Scratch scratch(ctx.arena);
  View dense = packed(ctx, x, copy);
  into_packed(ctx, out, copy, [&](const View& to) { ranks.all_reduce(dense, to, ctx.stream); });
}

void run_all_gather(Context& ctx, const CollectiveInit& init, int64_t dim, const View& x, const View& out,
                    RowCopy copy) {
  Communicator& ranks = ranks_of(ctx, init);
  Scratch scratch(ctx.arena);
  const int64_t rows = x.size(0), width = x.size(1), kept = out.size(1);
  if (ranks.size() == 1) return copy(ctx, x.narrow(1, 0, kept), out);
  View dense = packed(ctx, x, copy);
  if (dim == 0) return into_packed(ctx, out, copy, [&](const View& to) { ranks.all_gather(dense, to, ctx.stream); });
  View blocks = ctx.arena.make({{ranks.size() * rows, width}, x.dtype()});
  ranks.all_gather(dense, blocks, ctx.stream);
  for (int64_t r = 0; r < ranks.size(); ++r) {
    int64_t first = r * width, columns = std::clamp<int64_t>(kept - first, 0, width);
    if (columns > 0) copy(ctx, blocks.narrow(0, r * rows, rows).narrow(1, 0, columns), out.narrow(1, first, columns));
  }
}

void run_reduce_scatter(Context& ctx, const CollectiveInit& init, int64_t dim, const View& x, const View& out,
                        RowCopy copy) {
  Communicator& ranks = ranks_of(ctx, init);
  if (ranks.size() == 1) return copy(ctx, x, out);
  Scratch scratch(ctx.arena);
  View blocks = x;
  if (dim == 0) {
    blocks = packed(ctx, x, copy);
  } else {
    const int64_t rows = out.size(0), width = out.size(1);
    blocks = ctx.arena.make({{ranks.size() * rows, width}, x.dtype()});
    for (int64_t r = 0; r < ranks.size(); ++r)
      copy(ctx, x.narrow(1, r * width, width), blocks.narrow(0, r * rows, rows));
  }
  into_packed(ctx, out, copy, [&](const View& to) { ranks.reduce_scatter(blocks, to, ctx.stream); });
}

void run_all_to_all(Context& ctx, const CollectiveInit& init, const View& x, const View& out, RowCopy copy) {
  Communicator& ranks = ranks_of(ctx, init);
  if (ranks.size() == 1) return copy(ctx, x, out);
  Scratch scratch(ctx.arena);
  View dense = packed(ctx, x, copy);
  into_packed(ctx, out, copy, [&](const View& to) { ranks.all_to_all(dense, to, ctx.stream); });
}

}  // namespace fk
