// MoeGroupedGemm on CUDA, with matrices of elements: tensor cores for many rows, a streaming kernel for few, a simple
// tiled kernel for the rest.
#include "ops/l1/moe_grouped_gemm.h"

#include "backend/cuda/device/capabilities.h"
#include "backend/cuda/experts/call.h"
#include "backend/cuda/experts/stream.h"
#include "backend/cuda/experts/tiled.h"
#include "backend/cuda/experts/wgmma.h"
#include "backend/cuda/l1/call.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

std::string_view no_refusal(const ExpertsCall&) { return {}; }

// By one of the kernels.
template <auto kRefusal, auto kMultiply>
class ElementsMoeGroupedGemm final : public MoeGroupedGemm {
 public:
  using MoeGroupedGemm::MoeGroupedGemm;

  std::string_view refuse(Args args) const override {
    if (!init_.weight_format.empty()) return "it multiplies matrices of elements, not of a format";
    if (args[0]->dtype() != init_.dtype) return "x must have the dtype of the weight";
    if (args[1]->dtype() != DType::kI32 || args[2]->dtype() != DType::kI32 || !args[1]->contiguous() ||
        !args[2]->contiguous())
      return "sorted_token_ids and expert_offsets must be i32 and contiguous";
    if (std::string_view why = refuse_floats({&args[0], &args[3]}); !why.empty()) return why;
    if (init_.in_features > INT32_MAX || init_.out_features > INT32_MAX / 2 || args[1]->size(0) > INT32_MAX / 2)
      return "it has 32-bit indices";
    return kRefusal(call_of(*args[0], *args[1], *args[2], *args[3]));
  }

  void forward(Context& ctx, View x, View sorted_token_ids, View expert_offsets, View out) override {
    kMultiply(call_of(x, sorted_token_ids, expert_offsets, out), ctx.stream);
  }

 private:
  ExpertsCall call_of(const View& x, const View& sorted, const View& offsets, const View& out) const {
    ExpertsCall call{.x = x.data(),
                     .out = out.data(),
                     .sorted = sorted.ptr<int32_t>(),
                     .offsets = offsets.ptr<int32_t>(),
                     .x_stride = x.size(0) > 1 ? x.stride(0) : x.size(1),
                     .out_stride = out.size(0) > 1 ? out.stride(0) : out.size(1),
                     .experts = static_cast<int>(init_.num_experts),
                     .pairs = static_cast<int>(sorted.size(0)),
                     .pairs_per_row = static_cast<int>(init_.input_per_token ? init_.top_k : 1),
                     .top_k = static_cast<int>(init_.top_k),
                     .features = static_cast<int>(init_.out_features),
                     .length = static_cast<int>(init_.in_features),
                     .dtype = x.dtype()};
    // refuse() may be called before weights are bound.
    if (has_param(0)) call.weight = weight().data();
    if (init_.bias && has_param(1)) call.bias = bias()->data();
    return call;
  }
};

using WgmmaMoeGroupedGemm = ElementsMoeGroupedGemm<experts_wgmma_refusal, experts_wgmma>;
using StreamedMoeGroupedGemm = ElementsMoeGroupedGemm<stream_experts_refusal, stream_experts>;
using TiledMoeGroupedGemm = ElementsMoeGroupedGemm<no_refusal, experts_tiled>;

FK_IMPLEMENTATION(MoeGroupedGemm, WgmmaMoeGroupedGemm, "cuda.wgmma", DeviceKind::kCuda, 300, wgmma_unavailable);
FK_IMPLEMENTATION(MoeGroupedGemm, StreamedMoeGroupedGemm, "cuda.stream_experts", DeviceKind::kCuda, 200, nullptr);
FK_IMPLEMENTATION(MoeGroupedGemm, TiledMoeGroupedGemm, "cuda.tiled", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
