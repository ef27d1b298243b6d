// The collective operators on CUDA: rows are packed and unpacked by kernels, the communicator (NCCL) does the rest.
#include "ops/collectives_of_rows.h"

#include "backend/cuda/l1/copy_rows.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

void copy_all_rows(Context& ctx, const View& from, const View& to) { copy_rows({from, {}, to}, ctx.stream); }

using CudaAllReduce = AllReduceOfRows<copy_all_rows>;
using CudaAllGather = AllGatherOfRows<copy_all_rows>;
using CudaReduceScatter = ReduceScatterOfRows<copy_all_rows>;
using CudaAllToAll = AllToAllOfRows<copy_all_rows>;

FK_IMPLEMENTATION(AllReduce, CudaAllReduce, "cuda.communicator", DeviceKind::kCuda, 0, nullptr);
FK_IMPLEMENTATION(AllGather, CudaAllGather, "cuda.communicator", DeviceKind::kCuda, 0, nullptr);
FK_IMPLEMENTATION(ReduceScatter, CudaReduceScatter, "cuda.communicator", DeviceKind::kCuda, 0, nullptr);
FK_IMPLEMENTATION(AllToAll, CudaAllToAll, "cuda.communicator", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
