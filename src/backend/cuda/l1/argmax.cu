// Argmax on CUDA: maxima of pieces of rows, then of rows.
#include "ops/l1/argmax.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/row_max.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kArgmaxThreads = 256;

__global__ void __launch_bounds__(kArgmaxThreads) pick(RowMaxima maxima, int64_t rows, int64_t* out, int64_t stride) {
  let_next_start();
  wait_for_previous();
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kArgmaxThreads / 32) + threadIdx.x / 32;
  if (row >= rows) return;  // whole warps
  const PieceMax best = max_of_row(maxima, row);
  if (threadIdx.x % 32 == 0) out[row * stride] = index_of(best.first_of_largest);
}

class ArgmaxPieces final : public Argmax {
 public:
  using Argmax::Argmax;

  std::string_view refuse(Args args) const override {
    if (args[1]->dtype() != DType::kI64) return "out must be i64";
    if (args[0]->size(1) == 0) return "a row must have at least one element";
    if (args[0]->size(1) > INT32_MAX) return "a row must have fewer than 2^31 elements";
    return refuse_floats({&args[0]});
  }

  void forward(Context& ctx, View x, View out) override {
    RowMaxima maxima = row_maxima(x, ctx.arena, ctx.stream);
    launch("argmax", pick, blocks_for(x.size(0), kArgmaxThreads / 32), kArgmaxThreads, 0, ctx.stream, maxima, x.size(0),
           out.ptr<int64_t>(), out.stride(0));
  }
};

FK_IMPLEMENTATION(Argmax, ArgmaxPieces, "cuda.pieces", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
