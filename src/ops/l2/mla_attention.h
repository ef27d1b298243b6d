// MLAAttention: latent attention over the paged cache. Stores the latents of new tokens, then attends with decoding
// sequences on the latents themselves (absorbed: the up-projection of keys is moved to the queries, that of values
// behind the attention), and with prefilling ones on projected keys and values (expanded); what those have in the cache
// from earlier calls is attended to on the latents and merged.
#pragma once

#include "ops/contract.h"

namespace fk {

struct MLAAttentionInit {
  int64_t num_heads = 0;
  double scale = 1;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t v_head_dim = 0;
  int64_t kv_lora_rank = 0;
  std::string weight_format = {};  // of kv_b_proj; empty: elements of dtype
  DType dtype = DType::kBF16;

  int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }

  template <class Visitor>
  void visit(Visitor&& v) {
    v("num_heads", num_heads);
    v("scale", scale);
    v("qk_nope_head_dim", qk_nope_head_dim);
    v("qk_rope_head_dim", qk_rope_head_dim);
    v("v_head_dim", v_head_dim);
    v("kv_lora_rank", kv_lora_rank);
    v("weight_format", weight_format);
    v("dtype", dtype);
  }
};

class MLAAttention : public Operator {
 public:
  static constexpr std::string_view kName = "mla_attention";
  static constexpr std::string_view kClass = "MLAAttention";
  static constexpr int kLevel = 2;
  using Init = MLAAttentionInit;

  // q [T, H * (nope + rope)], its last parts rotated; kv_c_normed [T, L]; k_pe [T, rope], rotated -> out [T, H * v]. The
  // batch is the context's.
  static constexpr std::array kArgs{in("q"), in("kv_c_normed"), in("k_pe"), out("out")};

  explicit MLAAttention(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View q, View kv_c_normed, View k_pe, View out) = 0;

  // The latent and the rotated key of every token, [L + rope].
  static std::vector<StateSpec> states(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<MLAAttention>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
