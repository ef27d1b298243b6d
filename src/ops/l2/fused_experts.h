// FusedExperts: the feed-forward experts that each token was routed to: gate and up, activation, down, weighted sum.
#pragma once

#include "ops/contract.h"

namespace fk {

class FusedExperts : public Operator {
 public:
  static constexpr std::string_view kName = "fused_experts";
  static constexpr std::string_view kClass = "FusedExperts";
  static constexpr int kLevel = 2;

  struct Init {
    int64_t num_experts = 0;
    int64_t top_k = 1;
    int64_t hidden_size = 0;
    int64_t intermediate_size = 0;  // of an expert
    // Of gate and up: "silu", "gelu_pytorch_tanh", or "swigluoai", where the two alternate.
    std::string activation = "silu";
    double swiglu_limit = 7;         // of the last, as in SwigluOAIAndMul
    bool bias = false;               // of both products
    std::string weight_format = {};  // of the matrices (ops/formats); empty: elements of dtype
    // A token's weight multiplies the input of its expert, not the output; of one expert only.
    bool apply_router_weight_on_input = false;
    int64_t tp_size = 1;  // ranks the intermediate size is divided over; each keeps its part of the sum
    int64_t tp_rank = 0;  // which of them this is: the first adds the bias of the second product
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_experts", num_experts);
      v("top_k", top_k);
      v("hidden_size", hidden_size);
      v("intermediate_size", intermediate_size);
      v("activation", activation);
      v("swiglu_limit", swiglu_limit);
      v("bias", bias);
      v("weight_format", weight_format);
      v("apply_router_weight_on_input", apply_router_weight_on_input);
      v("tp_size", tp_size);
      v("tp_rank", tp_rank);
      v("dtype", dtype);
    }
  };

  // x [T, D]; topk_weights f32 [T, k]; topk_ids i32 [T, k], each in 0 .. E-1 -> out [T, D].
  static constexpr std::array kArgs{in("x"), in("topk_weights"), in("topk_ids"), out("out")};

  explicit FusedExperts(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View topk_weights, View topk_ids, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<FusedExperts>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
