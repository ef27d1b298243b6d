// The collective operators of a backend that can copy rows: they are packed and unpacked by kCopy, the communicator
// does the rest.
#pragma once

#include "ops/collectives.h"
#include "ops/l1/all_gather.h"
#include "ops/l1/all_to_all.h"
#include "ops/l1/allreduce.h"
#include "ops/l1/reduce_scatter.h"
#include "ops/refusals.h"

namespace fk {

template <RowCopy kCopy>
class AllReduceOfRows final : public AllReduce {
 public:
  using AllReduce::AllReduce;
  std::string_view refuse(Args args) const override { return refuse_copy(*args[0], *args[1]); }
  void forward(Context& ctx, View x, View out) override { run_all_reduce(ctx, init_, x, out, kCopy); }
};

template <RowCopy kCopy>
class AllGatherOfRows final : public AllGather {
 public:
  using AllGather::AllGather;
  std::string_view refuse(Args args) const override { return refuse_copy(*args[0], *args[1]); }
  void forward(Context& ctx, View x, View out) override { run_all_gather(ctx, init_, init_.dim, x, out, kCopy); }
};

template <RowCopy kCopy>
class ReduceScatterOfRows final : public ReduceScatter {
 public:
  using ReduceScatter::ReduceScatter;
  std::string_view refuse(Args args) const override { return refuse_copy(*args[0], *args[1]); }
  void forward(Context& ctx, View x, View out) override { run_reduce_scatter(ctx, init_, init_.dim, x, out, kCopy); }
};

template <RowCopy kCopy>
class AllToAllOfRows final : public AllToAll {
 public:
  using AllToAll::AllToAll;
  std::string_view refuse(Args args) const override { return refuse_copy(*args[0], *args[1]); }
  void forward(Context& ctx, View x, View out) override { run_all_to_all(ctx, init_, x, out, kCopy); }
};

}  // namespace fk
