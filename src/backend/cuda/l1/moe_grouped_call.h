// What all CUDA implementations of MoeGroupedGemm share: the call as plain numbers and addresses.
#pragma once

#include "backend/cuda/experts/call.h"
#include "backend/cuda/l1/call.h"
#include "ops/l1/moe_grouped_gemm.h"

namespace fk::cuda {

class CudaMoeGroupedGemm : public MoeGroupedGemm {
 public:
  using MoeGroupedGemm::MoeGroupedGemm;

 protected:
  std::string_view args_refusal(Args args) const {
    if (args[0]->dtype() != init_.dtype) return "x must have the dtype of the weight";
    if (args[1]->dtype() != DType::kI32 || args[2]->dtype() != DType::kI32 || !args[1]->contiguous() ||
        !args[2]->contiguous())
      return "sorted_token_ids and expert_offsets must be i32 and contiguous";
    if (std::string_view why = refuse_floats({&args[0], &args[3]}); !why.empty()) return why;
    if (init_.in_features > INT32_MAX || init_.out_features > INT32_MAX / 2 || args[1]->size(0) > INT32_MAX / 2)
      return "it has 32-bit indices";
    return {};
  }

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

}  // namespace fk::cuda
