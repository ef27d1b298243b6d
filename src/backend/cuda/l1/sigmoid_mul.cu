// SigmoidMul on CUDA.
#include "ops/l1/sigmoid_mul.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/packs.cuh"
#include "backend/cuda/l1/sigmoid_mul.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kSigmoidMulThreads = 256;

// Elements (t, h, i) of [T, H, D]; distances in elements.
template <class T>
struct GatedHeads {
  const T *x, *gate;
  T* out;
  int64_t x_token, x_head, gate_token, gate_head, out_token, out_head, count;
  int heads, width;
};

template <class T>
__global__ void __launch_bounds__(kSigmoidMulThreads) gate_elements(const GatedHeads<T> c) {
  let_next_start();
  wait_for_previous();
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kSigmoidMulThreads + threadIdx.x;
  if (at >= c.count) return;
  const int i = static_cast<int>(at % c.width), h = static_cast<int>(at / c.width % c.heads);
  const int64_t t = at / c.width / c.heads;
  const float gate = to_float(c.gate[t * c.gate_token + h * c.gate_head + i]);
  const float x = to_float(c.x[t * c.x_token + h * c.x_head + i]);
  c.out[t * c.out_token + h * c.out_head + i] = from_float<T>(x / (1.0f + expf(-gate)));
}

class SigmoidMulElements final : public SigmoidMul {
 public:
  using SigmoidMul::SigmoidMul;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1], &args[2]}); }

  void forward(Context& ctx, View x, View gate, View out) override { sigmoid_mul(x, gate, out, ctx.stream); }
};

FK_IMPLEMENTATION(SigmoidMul, SigmoidMulElements, "cuda.elements", DeviceKind::kCuda, 0, nullptr);

}  // namespace

void sigmoid_mul(const View& x, const View& gate, const View& out, void* stream) {
  with_float_type(x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    GatedHeads<T> c{};
    c.x = static_cast<const T*>(x.data());
    c.gate = static_cast<const T*>(gate.data());
    c.out = static_cast<T*>(out.data());
    c.x_token = x.stride(0);
    c.x_head = x.stride(1);
    c.gate_token = gate.stride(0);
    c.gate_head = gate.stride(1);
    c.out_token = out.stride(0);
    c.out_head = out.stride(1);
    c.count = x.numel();
    c.heads = static_cast<int>(x.size(1));
    c.width = static_cast<int>(x.size(2));
    launch("sigmoid_mul", gate_elements<T>, blocks_for(c.count, kSigmoidMulThreads), kSigmoidMulThreads, 0, stream, c);
  });
}

}  // namespace fk::cuda
