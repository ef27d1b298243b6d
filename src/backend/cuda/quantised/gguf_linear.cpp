// `gguf_linear` on CUDA.
#include "ops/l1/gguf_linear.h"

#include "backend/cuda/quantised/product.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class CudaGGUFLinear : public GGUFLinear {
 public:
  using GGUFLinear::GGUFLinear;

  std::string_view refuse(Args args) const override {
    return quantised_call_refusal(*args[0], *args[1], init_.bias, init_.dtype);
  }

 protected:
  void prepare() override {
    product_.clear();
    for (size_t i = 0; i < parts_.size(); ++i)
      product_.add(parts_[i].format->name,
                   {.tensors = {&weight(i), 1}, .rows = parts_[i].rows, .columns = init_.in_features});
  }
  const void* bias_data() const { return init_.bias ? bias().data() : nullptr; }

  QuantisedProduct product_;
};

class StreamedGGUFLinear final : public CudaGGUFLinear {
 public:
  using CudaGGUFLinear::CudaGGUFLinear;

  std::string_view refuse(Args args) const override {
    std::string_view why = CudaGGUFLinear::refuse(args);
    return why.empty() ? product_.stream_refusal(*args[0], *args[1], StreamEpilogue::kPlain) : why;
  }
  void forward(Context& ctx, View x, View out) override {
    product_.stream(ctx, x, bias_data(), out, StreamEpilogue::kPlain);
  }
};

class WrittenOutGGUFLinear final : public CudaGGUFLinear {
 public:
  using CudaGGUFLinear::CudaGGUFLinear;
  void forward(Context& ctx, View x, View out) override { product_.write_out(ctx, x, bias_data(), out); }
};

FK_IMPLEMENTATION(GGUFLinear, StreamedGGUFLinear, "cuda.stream_codes", DeviceKind::kCuda, 300, nullptr);
FK_IMPLEMENTATION(GGUFLinear, WrittenOutGGUFLinear, "cuda.write_out", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
