// Linear on CUDA: streaming kernels for few rows, cuBLASLt for many, a simple tiled kernel for the rest.
#include "ops/l1/linear.h"

#include "backend/cuda/device/capabilities.h"
#include "backend/cuda/matmul/matmul.h"
#include "backend/cuda/matmul/stream_tiles.h"
#include "backend/cuda/matmul/stream_weights.h"
#include "backend/cuda/matmul/tiled.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

std::string_view dtype_refusal(const View& x) {
  bool known = x.dtype() == DType::kBF16 || x.dtype() == DType::kF16 || x.dtype() == DType::kF32;
  if (!known) return "it multiplies bf16, f16 and f32";
  return x.rows_contiguous() ? std::string_view() : "rows must be contiguous";
}

class CudaLinear : public Linear {
 public:
  using Linear::Linear;

 protected:
  MatmulProblem problem(const View& x, const View& out) const {
    View shape(nullptr, Shape{init_.out_features, init_.in_features}, init_.dtype);
    return problem_of(x, shape, init_.bias, out);
  }
  // refuse() may be called before weights are bound.
  MatmulOperands operands(const View& x, const View& out) const {
    if (!has_param(0)) return {.x = x.data(), .out = out.data()};
    return {x.data(), weight().data(), bias_data(), out.data()};
  }
};

// By one of the kernels that stream the weights.
template <auto kRefusal, auto kMultiply>
class StreamedLinear final : public CudaLinear {
 public:
  using CudaLinear::CudaLinear;

  std::string_view refuse(Args args) const override {
    if (std::string_view why = dtype_refusal(*args[0]); !why.empty()) return why;
    return kRefusal(problem(*args[0], *args[1]), operands(*args[0], *args[1]), StreamEpilogue::kPlain);
  }
  void forward(Context& ctx, View x, View out) override {
    kMultiply(problem(x, out), operands(x, out), StreamEpilogue::kPlain, ctx.stream);
  }
};

using RowStreamedLinear = StreamedLinear<stream_weights_refusal, stream_weights>;
using TileStreamedLinear = StreamedLinear<stream_tiles_refusal, stream_tiles>;

class CublasLtLinear final : public CudaLinear {
 public:
  using CudaLinear::CudaLinear;

  std::string_view refuse(Args args) const override {
    if (std::string_view why = dtype_refusal(*args[0]); !why.empty()) return why;
    if (args[0]->size(0) == 0) return "there is nothing to multiply";
    return cublaslt_refusal(problem(*args[0], *args[1]), operands(*args[0], *args[1]));
  }
  void forward(Context& ctx, View x, View out) override { plans_.run(problem(x, out), operands(x, out), ctx.stream); }

 private:
  CublasLtPlans plans_;
};

class TiledLinear final : public CudaLinear {
 public:
  using CudaLinear::CudaLinear;

  std::string_view refuse(Args args) const override { return dtype_refusal(*args[0]); }
  void forward(Context& ctx, View x, View out) override { matmul_tiled(problem(x, out), operands(x, out), ctx.stream); }
};

FK_IMPLEMENTATION(Linear, RowStreamedLinear, "cuda.stream_weights", DeviceKind::kCuda, 300, nullptr);
FK_IMPLEMENTATION(Linear, TileStreamedLinear, "cuda.stream_tiles", DeviceKind::kCuda, 250, wgmma_unavailable);
FK_IMPLEMENTATION(Linear, CublasLtLinear, "cuda.cublaslt", DeviceKind::kCuda, 200, nullptr);
FK_IMPLEMENTATION(Linear, TiledLinear, "cuda.tiled", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
