// The collective operators on CPU: rows are packed and unpacked by all threads, the communicator does the rest.
#include "ops/collectives_of_rows.h"

#include "backend/cpu/l1/copy_rows.h"
#include "ops/register.h"

namespace fk {
namespace {

void copy_all_rows(Context& ctx, const View& from, const View& to) {
  size_t bytes = static_cast<size_t>(from.size(1)) * dtype_size(from.dtype());
  for_rows(ctx.pool, from.size(0), from.size(1), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) std::memcpy(row_bytes(to, t), row_bytes(from, t), bytes);
  });
}

using CpuAllReduce = AllReduceOfRows<copy_all_rows>;
using CpuAllGather = AllGatherOfRows<copy_all_rows>;
using CpuReduceScatter = ReduceScatterOfRows<copy_all_rows>;
using CpuAllToAll = AllToAllOfRows<copy_all_rows>;

FK_IMPLEMENTATION(AllReduce, CpuAllReduce, "cpu.communicator", DeviceKind::kCpu, 0, nullptr);
FK_IMPLEMENTATION(AllGather, CpuAllGather, "cpu.communicator", DeviceKind::kCpu, 0, nullptr);
FK_IMPLEMENTATION(ReduceScatter, CpuReduceScatter, "cpu.communicator", DeviceKind::kCpu, 0, nullptr);
FK_IMPLEMENTATION(AllToAll, CpuAllToAll, "cpu.communicator", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
