// `fp8_linear` on CUDA.
#include "ops/l1/fp8_linear.h"

#include "backend/cuda/quantised/linear.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

// Many rows, rounded to FP8 too.
class TensorCoreFp8Linear final : public CudaQuantisedLinear<Fp8Linear> {
 public:
  using CudaQuantisedLinear<Fp8Linear>::CudaQuantisedLinear;

  std::string_view refuse(Args args) const override {
    std::string_view why = CudaQuantisedLinear<Fp8Linear>::refuse(args);
    return why.empty() ? product_.fp8_refusal(*args[0], *args[1], init_.bias) : why;
  }
  void forward(Context& ctx, View x, View out) override {
    if (!product_.multiply_fp8(ctx, x, bias_data(), out)) product_.write_out(ctx, x, bias_data(), out);
  }
};

using StreamedFp8Linear = StreamedQuantisedLinear<Fp8Linear>;
using WrittenOutFp8Linear = WrittenOutLinear<Fp8Linear>;
FK_IMPLEMENTATION(Fp8Linear, StreamedFp8Linear, "cuda.stream_codes", DeviceKind::kCuda, 300, nullptr);
FK_IMPLEMENTATION(Fp8Linear, TensorCoreFp8Linear, "cuda.fp8_tensor_cores", DeviceKind::kCuda, 200, nullptr);
FK_IMPLEMENTATION(Fp8Linear, WrittenOutFp8Linear, "cuda.write_out", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
