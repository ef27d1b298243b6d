// MLASparseAttention: latent attention over the paged cache, of each query over the keys it is given. Stores the latents
// of new tokens, then attends on the latents themselves.
#pragma once

#include "ops/l2/mla_attention.h"

namespace fk {

struct MLASparseAttentionInit : MLAAttentionInit {
  int64_t top_k = 0;

  template <class Visitor>
  void visit(Visitor&& v) {
    MLAAttentionInit::visit(v);
    v("top_k", top_k);
  }
};

class MLASparseAttention : public Operator {
 public:
  static constexpr std::string_view kName = "mla_sparse_attention";
  static constexpr std::string_view kClass = "MLASparseAttention";
  static constexpr int kLevel = 2;
  using Init = MLASparseAttentionInit;

  // As in MLAAttention, and topk_indices i32 [T, k] as in FlashMLASparseFwd.
  static constexpr std::array kArgs{in("q"), in("kv_c_normed"), in("k_pe"), in("topk_indices"), out("out")};

  explicit MLASparseAttention(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View q, View kv_c_normed, View k_pe, View topk_indices, View out) = 0;

  static std::vector<StateSpec> states(const Init& init) { return MLAAttention::states(init); }
  static OutputSpecs outputs(const Init& init, Args given) { return MLAAttention::outputs(init, given); }
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype) { return MLAAttention::tolerance(init, dtype); }
  static std::vector<Case<MLASparseAttention>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
