// GateOutputCorrection on CUDA: a warp for each head of a token.
#include "ops/l1/gate_output_correction.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/map_rows.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kCorrectionWarps = 4;

template <class T>
struct Correction {
  RowsOf<const T> o, r, k, v, g;
  const T* r_k;
  RowsOf<T> out;
  int64_t rows;
  int heads, width;
};

template <class T>
__global__ void __launch_bounds__(32 * kCorrectionWarps) correct_heads(const Correction<T> c) {
  let_next_start();
  wait_for_previous();
  const int lane = threadIdx.x % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kCorrectionWarps + threadIdx.x / 32;
  if (row >= c.rows) return;  // whole warps
  const int64_t t = row / c.heads;
  const int first = static_cast<int>(row % c.heads) * c.width;
  const T *r = c.r.row(t) + first, *k = c.k.row(t) + first, *r_k = c.r_k + first;
  float sum = 0;
  for (int i = lane; i < c.width; i += 32) sum = fmaf(to_float(r[i]) * to_float(k[i]), to_float(r_k[i]), sum);
  sum = reduce_warp<Sum>(sum);
  for (int i = first + lane; i < first + c.width; i += 32) {
    const float x = fmaf(sum, to_float(c.v.row(t)[i]), to_float(c.o.row(t)[i]));
    c.out.row(t)[i] = from_float<T>(x * to_float(c.g.row(t)[i]));
  }
}

class GateOutputCorrectionWarpPerHead final : public GateOutputCorrection {
 public:
  using GateOutputCorrection::GateOutputCorrection;

  std::string_view refuse(Args args) const override {
    return refuse_floats({&args[0], &args[1], &args[2], &args[3], &args[4], &args[5]});
  }

  void forward(Context& ctx, View o, View r, View k, View v, View g, View out) override {
    with_float_type(o.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      Correction<T> c{};
      c.o = rows_of<const T>(o);
      c.r = rows_of<const T>(r);
      c.k = rows_of<const T>(k);
      c.v = rows_of<const T>(v);
      c.g = rows_of<const T>(g);
      c.r_k = static_cast<const T*>(r_k().data());
      c.out = rows_of<T>(out);
      c.rows = o.size(0) * init_.num_heads;
      c.heads = static_cast<int>(init_.num_heads);
      c.width = static_cast<int>(init_.head_dim);
      launch("gate_output_correction", correct_heads<T>, blocks_for(c.rows, kCorrectionWarps), 32 * kCorrectionWarps, 0,
             ctx.stream, c);
    });
  }
};

FK_IMPLEMENTATION(GateOutputCorrection, GateOutputCorrectionWarpPerHead, "cuda.warp_per_head", DeviceKind::kCuda, 0,
                  nullptr);

}  // namespace
}  // namespace fk::cuda
