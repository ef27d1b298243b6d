// Relu2AndMul on CUDA.
#include "ops/l1/relu2_and_mul.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/gate_and_mul.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

// A NaN stays one.
struct Relu2 {
  template <class T>
  __device__ static float of(float x) {
    return x < 0 ? 0.0f : x * x;
  }
};

class Relu2AndMulFused final : public Relu2AndMul {
 public:
  using Relu2AndMul::Relu2AndMul;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override { gate_and_mul<Relu2>("relu2_and_mul", x, out, ctx.stream); }
};

FK_IMPLEMENTATION(Relu2AndMul, Relu2AndMulFused, "cuda.fused", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
