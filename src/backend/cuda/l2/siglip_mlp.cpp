// SiglipMLP on CUDA: two products, the first of which ends with bias and activation.
#include "ops/l2/siglip_mlp.h"

#include "backend/cuda/matmul/matmul.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class GeluEpilogueMlp final : public SiglipMLP {
 public:
  explicit GeluEpilogueMlp(const Init& init) : SiglipMLP(init), init_(init) {}

  std::string_view refuse(Args args) const override {
    const View& x = *args[0];
    if (init_.hidden_act != "gelu_pytorch_tanh") return "it knows gelu_pytorch_tanh only";
    if (!x.rows_contiguous() || !args[1]->rows_contiguous()) return "rows must be contiguous";
    if (x.size(0) == 0) return "there is nothing to multiply";
    if (x.dtype() != init_.dtype || args[1]->dtype() != init_.dtype) return "x must have the dtype of the weights";
    // Only the shape of the intermediate tensor matters here.
    View between(nullptr, Shape{x.size(0), init_.intermediate_size}, x.dtype(), x.device());
    return cublaslt_refusal(wide_problem(x, between), wide_operands(x, between));
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    wide_ = weight("fc1.weight");
    wide_bias_ = weight("fc1.bias");
    narrow_ = weight("fc2.weight");
    narrow_bias_ = weight("fc2.bias");
  }

  void forward(Context& ctx, View x, View out) override {
    View between = ctx.arena.make({{x.size(0), init_.intermediate_size}, x.dtype()});
    wide_plans_.run(wide_problem(x, between), wide_operands(x, between), ctx.stream);
    narrow_product_.run(ctx, between, narrow_, narrow_bias_.data(), out);
  }

 private:
  MatmulProblem wide_problem(const View& x, const View& between) const {
    MatmulProblem problem = problem_of(x, View(nullptr, Shape{init_.intermediate_size, init_.hidden_size}, init_.dtype),
                                       /*bias=*/true, between);
    problem.gelu = true;
    return problem;
  }
  MatmulOperands wide_operands(const View& x, const View& between) const {
    return {x.data(), wide_.data(), wide_bias_.data(), between.data()};
  }

  const Init init_;
  CublasLtPlans wide_plans_;
  Matmul narrow_product_;
  View wide_, wide_bias_, narrow_, narrow_bias_;
};

FK_FUSED_IMPLEMENTATION(SiglipMLP, GeluEpilogueMlp, "cuda.gelu_epilogue", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
