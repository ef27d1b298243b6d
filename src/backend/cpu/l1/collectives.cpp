// The collective operators on CPU: rows are packed and unpacked by all threads, the communicator does the rest.
#include "ops/collectives.h"

#include "backend/cpu/l1/copy_rows.h"
#include "ops/l1/all_gather.h"
#include "ops/l1/all_to_all.h"
#include "ops/l1/allreduce.h"
#include "ops/l1/reduce_scatter.h"
#include "ops/register.h"

namespace fk {
namespace {

void copy_all_rows(Context& ctx, const View& from, const View& to) {
  size_t bytes = static_cast<size_t>(from.size(1)) * dtype_size(from.dtype());
  for_rows(ctx.pool, from.size(0), from.size(1), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) std::memcpy(row_bytes(to, t), row_bytes(from, t), bytes);
  });
}

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

FK_IMPLEMENTATION(AllReduce, AllReduceOfRows, "cpu.communicator", DeviceKind::kCpu, 0, nullptr);
FK_IMPLEMENTATION(AllGather, AllGatherOfRows, "cpu.communicator", DeviceKind::kCpu, 0, nullptr);
FK_IMPLEMENTATION(ReduceScatter, ReduceScatterOfRows, "cpu.communicator", DeviceKind::kCpu, 0, nullptr);
FK_IMPLEMENTATION(AllToAll, AllToAllOfRows, "cpu.communicator", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
