// ShiftIds on CUDA: one thread for each token.
#include "ops/l1/shift_ids.h"

#include "backend/cuda/device/launch.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kShiftIdsThreads = 256;

__global__ void __launch_bounds__(kShiftIdsThreads)
    shift(const int64_t* ids, int64_t ids_stride, int64_t first, int64_t tokens, int64_t* out, int64_t out_stride) {
  let_next_start();
  wait_for_previous();
  const int64_t t = static_cast<int64_t>(blockIdx.x) * kShiftIdsThreads + threadIdx.x;
  if (t < tokens) out[t * out_stride] = ids[t * ids_stride] - first;
}

class ShiftIdsPerThread final : public ShiftIds {
 public:
  using ShiftIds::ShiftIds;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context& ctx, View input_ids, View out) override {
    launch("shift_ids", shift, blocks_for(input_ids.size(0), kShiftIdsThreads), kShiftIdsThreads, 0, ctx.stream,
           input_ids.ptr<int64_t>(), input_ids.stride(0), init_.first, input_ids.size(0), out.ptr<int64_t>(),
           out.stride(0));
  }
};

FK_IMPLEMENTATION(ShiftIds, ShiftIdsPerThread, "cuda.thread_per_token", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
