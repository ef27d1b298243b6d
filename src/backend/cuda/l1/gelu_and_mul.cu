// GeluAndMul on CUDA, exact and in the tanh approximation.
#include "ops/l1/gelu_and_mul.h"

#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/gate_and_mul.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

// x times the cumulative normal distribution of x.
struct GeluExact {
  template <class T>
  __device__ static float of(float x) {
    constexpr float kSqrtHalf = 0.70710678118654752f;
    return 0.5f * x * erfcf(-kSqrtHalf * x);
  }
};

// (1 + tanh z) / 2 is the logistic function of 2 z, which does not cancel for negative z.
struct GeluTanh {
  template <class T>
  __device__ static float of(float x) {
    constexpr float k2Sqrt2OverPi = 1.5957691216f;
    return over_one_plus_exp<T>(x, -k2Sqrt2OverPi * (x + 0.044715f * x * x * x));
  }
};

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
