// `moe_grouped_gemm` on CUDA with experts in a weight format.
#include "backend/cuda/l1/moe_grouped_call.h"
#include "backend/cuda/quantised/expert_product.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class CodesMoeGroupedGemm : public CudaMoeGroupedGemm {
 public:
  using CudaMoeGroupedGemm::CudaMoeGroupedGemm;

  std::string_view refuse(Args args) const override {
    if (init_.weight_format.empty()) return "its weights are in a format";
    return args_refusal(args);
  }

 protected:
  void prepare() override {
    if (!init_.weight_format.empty()) product_.bind(init_.weight_format, weight(), init_.in_features);
  }

  ExpertProduct product_;
};

class StreamedCodesMoeGroupedGemm final : public CodesMoeGroupedGemm {
 public:
  using CodesMoeGroupedGemm::CodesMoeGroupedGemm;

  std::string_view refuse(Args args) const override {
    std::string_view why = CodesMoeGroupedGemm::refuse(args);
    return why.empty() ? product_.stream_refusal(call_of(*args[0], *args[1], *args[2], *args[3])) : why;
  }
  void forward(Context& ctx, View x, View sorted_token_ids, View expert_offsets, View out) override {
    product_.stream(call_of(x, sorted_token_ids, expert_offsets, out), ctx.stream);
  }
};

class WrittenOutMoeGroupedGemm final : public CodesMoeGroupedGemm {
 public:
  using CodesMoeGroupedGemm::CodesMoeGroupedGemm;

  void forward(Context& ctx, View x, View sorted_token_ids, View expert_offsets, View out) override {
    product_.write_out(ctx, call_of(x, sorted_token_ids, expert_offsets, out));
  }
};

FK_IMPLEMENTATION(MoeGroupedGemm, StreamedCodesMoeGroupedGemm, "cuda.stream_codes", DeviceKind::kCuda, 190, nullptr);
FK_IMPLEMENTATION(MoeGroupedGemm, WrittenOutMoeGroupedGemm, "cuda.write_out", DeviceKind::kCuda, 90, nullptr);

}  // namespace
}  // namespace fk::cuda
