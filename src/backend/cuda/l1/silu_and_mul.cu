// SiluAndMul on CUDA.
#include "ops/l1/silu_and_mul.h"

#include "backend/cuda/l1/activations.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/gate_and_mul.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class SiluAndMulFused final : public SiluAndMul {
 public:
  using SiluAndMul::SiluAndMul;

  std::string_view refuse(Args args) const override { return refuse_floats({&args[0], &args[1]}); }

  void forward(Context& ctx, View x, View out) override { gate_and_mul<Silu>("silu_and_mul", x, out, ctx.stream); }
};

FK_IMPLEMENTATION(SiluAndMul, SiluAndMulFused, "cuda.fused", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
