// DeepseekV32MLAAttention: the attention block of DeepSeek V3.2 and GLM 5: that of V3 over the keys that an indexer
// chooses for each query.
#pragma once

#include "ops/l2/deepseek_v2_mla_attention.h"
#include "ops/l2/indexer.h"
#include "ops/l2/mla_sparse_attention.h"

namespace fk {

struct SparseMLABlockInit : MLABlockInit {
  int64_t index_n_heads = 0;
  int64_t index_head_dim = 0;
  int64_t index_topk = 0;
  bool index_is_neox_style = true;  // of the indexer's rotary embedding

  template <class Visitor>
  void visit(Visitor&& v) {
    MLABlockInit::visit(v);
    v("index_n_heads", index_n_heads);
    v("index_head_dim", index_head_dim);
    v("index_topk", index_topk);
    v("index_is_neox_style", index_is_neox_style);
  }
};

class DeepseekV32MLAAttention : public Operator {
 public:
  static constexpr std::string_view kName = "deepseek_v32_mla_attention";
  static constexpr std::string_view kClass = "DeepseekV32MLAAttention";
  static constexpr int kLevel = 2;
  using Init = SparseMLABlockInit;

  // positions i64 [T], hidden_states [T, D] -> out [T, D].
  static constexpr std::array kArgs = DeepseekV2MLAAttention::kArgs;

  explicit DeepseekV32MLAAttention(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View hidden_states, View out) = 0;

  static OutputSpecs outputs(const Init&, Args given) { return {given[1]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& w) { return DeepseekV2MLAAttention::inputs(init, w); }
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype) { return DeepseekV2MLAAttention::tolerance(init, dtype); }
  static std::vector<Case<DeepseekV32MLAAttention>> cases();

  static Indexer::Init indexer(const Init& init);
  static MLASparseAttention::Init core(const Init& init) {
    return {DeepseekV2MLAAttention::core(init), init.index_topk};
  }

 protected:
  const Init init_;
};

}  // namespace fk
