// MoeGroupedGemm on CUDA, with matrices of elements: tensor cores for many rows, a streaming kernel for few, a simple
// tiled kernel for the rest.
#include "backend/cuda/device/capabilities.h"
#include "backend/cuda/experts/stream.h"
#include "backend/cuda/experts/tiled.h"
#include "backend/cuda/experts/wgmma.h"
#include "backend/cuda/l1/moe_grouped_call.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

std::string_view no_refusal(const ExpertsCall&) { return {}; }

// By one of the kernels.
template <auto kRefusal, auto kMultiply>
class ElementsMoeGroupedGemm final : public CudaMoeGroupedGemm {
 public:
  using CudaMoeGroupedGemm::CudaMoeGroupedGemm;

  std::string_view refuse(Args args) const override {
    if (!init_.weight_format.empty()) return "it multiplies matrices of elements, not of a format";
    if (std::string_view why = args_refusal(args); !why.empty()) return why;
    return kRefusal(call_of(*args[0], *args[1], *args[2], *args[3]));
  }

  void forward(Context& ctx, View x, View sorted_token_ids, View expert_offsets, View out) override {
    kMultiply(call_of(x, sorted_token_ids, expert_offsets, out), ctx.stream);
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
