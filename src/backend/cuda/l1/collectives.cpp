// The collective operators on CUDA: rows are packed and unpacked by kernels, the communicator (NCCL) does the rest.
#include "ops/collectives.h"

#include "backend/cuda/l1/copy_rows.h"
#include "ops/l1/all_gather.h"
#include "ops/l1/all_to_all.h"
#include "ops/l1/allreduce.h"
#include "ops/l1/reduce_scatter.h"
#include "ops/refusals.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

void copy_all_rows(Context& ctx, const View& from, const View& to) { copy_rows({from, {}, to}, ctx.stream); }

class AllReduceOfRows final : public AllReduce {
 public:
  using AllReduce::AllReduce;
  std::string_view refuse(Args args) const override { return refuse_copy(*args[0], *args[1]); }
  void forward(Context& ctx, View x, View out) override { run_all_reduce(ctx, init_, x, out, copy_all_rows); }
};

class AllGatherOfRows final : public AllGather {
 public:
  using AllGather::AllGather;
  std::string_view refuse(Args args) const override { return refuse_copy(*args[0], *args[1]); }
  void forward(Context& ctx, View x, View out) override {
    run_all_gather(ctx, init_, init_.dim, x, out, copy_all_rows);
  }
};

class ReduceScatterOfRows final : public ReduceScatter {
 public:
  using ReduceScatter::ReduceScatter;
  std::string_view refuse(Args args) const override { return refuse_copy(*args[0], *args[1]); }
  void forward(Context& ctx, View x, View out) override {
    run_reduce_scatter(ctx, init_, init_.dim, x, out, copy_all_rows);
  }
};

class AllToAllOfRows final : public AllToAll {
 public:
  using AllToAll::AllToAll;
  std::string_view refuse(Args args) const override { return refuse_copy(*args[0], *args[1]); }
  void forward(Context& ctx, View x, View out) override { run_all_to_all(ctx, init_, x, out, copy_all_rows); }
};

FK_IMPLEMENTATION(AllReduce, AllReduceOfRows, "cuda.communicator", DeviceKind::kCuda, 0, nullptr);
FK_IMPLEMENTATION(AllGather, AllGatherOfRows, "cuda.communicator", DeviceKind::kCuda, 0, nullptr);
FK_IMPLEMENTATION(ReduceScatter, ReduceScatterOfRows, "cuda.communicator", DeviceKind::kCuda, 0, nullptr);
FK_IMPLEMENTATION(AllToAll, AllToAllOfRows, "cuda.communicator", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
