// GeluAndMul on CUDA, exact and in the tanh approximation.
#include "ops/l1/gelu_and_mul.h"

#include "backend/cuda/l1/activations.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/gate_and_mul.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class GeluAndMulFused final : public GeluAndMul {
 public:
  explicit GeluAndMulFused(const Init& init) : GeluAndMul(init), tanh_(init.approximate == "tanh") {}

  std::string_view refuse(Args args) const override {
    if (!tanh_ && init_.approximate != "none") return "it supports the approximations none and tanh only";
    return refuse_floats({&args[0], &args[1]});
  }

  void forward(Context& ctx, View x, View out) override {
    if (tanh_)
      gate_and_mul<GeluTanh>("gelu_and_mul", x, out, ctx.stream);
    else
      gate_and_mul<GeluExact>("gelu_and_mul", x, out, ctx.stream);
  }

 private:
  const bool tanh_;
};

FK_IMPLEMENTATION(GeluAndMul, GeluAndMulFused, "cuda.fused", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
