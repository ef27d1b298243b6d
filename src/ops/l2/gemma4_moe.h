// Gemma4MoE: the experts of Gemma 4, beside its feed-forward block. The router sees the residual stream, with a norm of
// its own; the experts see it after the layer's norm.
#pragma once

#include "ops/l2/sparse_moe_block.h"

namespace fk {

struct Gemma4MoEInit {
  int64_t hidden_size = 0;
  int64_t num_experts = 0;
  int64_t top_k = 1;              // experts of a token
  int64_t intermediate_size = 0;  // of an expert
  double rms_norm_eps = 1e-6;     // of the router's norm
  int64_t tp_size = 1;            // ranks the intermediate size is divided over
  int64_t tp_rank = 0;            // which of them this is
  bool reduce_results = true;     // add up the ranks' outputs; else each keeps its part
  DType dtype = DType::kBF16;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("hidden_size", hidden_size);
    v("num_experts", num_experts);
    v("top_k", top_k);
    v("intermediate_size", intermediate_size);
    v("rms_norm_eps", rms_norm_eps);
    v("tp_size", tp_size);
    v("tp_rank", tp_rank);
    v("reduce_results", reduce_results);
    v("dtype", dtype);
  }
};

class Gemma4MoE : public Operator {
 public:
  static constexpr std::string_view kName = "gemma4_moe";
  static constexpr std::string_view kClass = "Gemma4MoE";
  static constexpr int kLevel = 2;
  using Init = Gemma4MoEInit;

  // x, which the experts compute with, and residual, which chooses them, both [T, D] -> out [T, D].
  static constexpr std::array kArgs{in("x"), in("residual"), out("out")};

  explicit Gemma4MoE(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View residual, View out) = 0;

  static OutputSpecs outputs(const Init&, Args given) { return {given[0]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& w);
  static Cost cost(const Init& init, const Workload& w);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<Gemma4MoE>> cases();

  // What the blocks of other families have too.
  static SparseMoeBlockInit common(const Init& init);
  static FusedExperts::Init routed(const Init& init);

 protected:
  const Init init_;
};

}  // namespace fk
