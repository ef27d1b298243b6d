// SiluAndMul on CUDA.
#include "ops/l1/silu_and_mul.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/gate_and_mul.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

struct Silu {
  template <class T>
  __device__ static float of(float x) {
    return over_one_plus_exp<T>(x, -x);
  }
};

class SiluAndMulFused final : public SiluAndMul {
 public:
  using SiluAndMul::SiluAndMul;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override { gate_and_mul<Silu>("silu_and_mul", x, out, ctx.stream); }
};

FK_IMPLEMENTATION(SiluAndMul, SiluAndMulFused, "cuda.fused", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
