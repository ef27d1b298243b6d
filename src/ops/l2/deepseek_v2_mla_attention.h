// DeepseekV2MLAAttention: the attention block of DeepSeek V2 and V3: queries projected down and up again, or at once;
// latents of keys and values with their norm; a rotated part that all heads share.
#pragma once

#include "ops/l1/rms_norm.h"
#include "ops/l1/rotary_emb.h"
#include "ops/l2/mla_attention.h"

namespace fk {

struct MLABlockInit {
  int64_t hidden_size = 0;
  int64_t num_heads = 0;  // of all ranks together
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t v_head_dim = 0;
  int64_t q_lora_rank = 0;  // 0: queries are projected at once
  int64_t kv_lora_rank = 0;
  int64_t max_position = 8192;
  double rope_theta = 10000;
  RopeScaling rope_scaling = {};
  bool is_neox_style = false;  // as in RotaryEmbedding
  bool rotary = true;          // false: positions are not used, as in Kimi-Linear
  bool bias = false;           // of the projections down, and of the output projection
  double rms_norm_eps = 1e-6;
  double scale = 0;  // of the scores; 0: 1 / sqrt(nope + rope)
  int64_t tp_size = 1;
  int64_t tp_rank = 0;
  bool reduce_results = true;
  // Of its matrices, by module (ops/formats/format_map.h); empty: elements of dtype.
  std::string weight_format = {};
  DType dtype = DType::kBF16;

  int64_t qk_head_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }

  template <class Visitor>
  void visit(Visitor&& v) {
    v("hidden_size", hidden_size);
    v("num_heads", num_heads);
    v("qk_nope_head_dim", qk_nope_head_dim);
    v("qk_rope_head_dim", qk_rope_head_dim);
    v("v_head_dim", v_head_dim);
    v("q_lora_rank", q_lora_rank);
    v("kv_lora_rank", kv_lora_rank);
    v("max_position", max_position);
    v("rope_theta", rope_theta);
    v("rope_scaling", rope_scaling);
    v("is_neox_style", is_neox_style);
    v("rotary", rotary);
    v("bias", bias);
    v("rms_norm_eps", rms_norm_eps);
    v("scale", scale);
    v("tp_size", tp_size);
    v("tp_rank", tp_rank);
    v("reduce_results", reduce_results);
    v("weight_format", weight_format);
    v("dtype", dtype);
  }
};

class DeepseekV2MLAAttention : public Operator {
 public:
  static constexpr std::string_view kName = "deepseek_v2_mla_attention";
  static constexpr std::string_view kClass = "DeepseekV2MLAAttention";
  static constexpr int kLevel = 2;
  using Init = MLABlockInit;

  // positions i64 [T], hidden_states [T, D] -> out [T, D].
  static constexpr std::array kArgs{in("positions"), in("hidden_states"), out("out")};

  explicit DeepseekV2MLAAttention(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View hidden_states, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<DeepseekV2MLAAttention>> cases();

  // Of this rank.
  static MLAAttention::Init core(const Init& init);
  // Of queries, whose rotated part is the last of a head; and of the part of keys that all heads share.
  static RotaryEmbedding::Init rotary_q(const Init& init);
  static RotaryEmbedding::Init rotary_k(const Init& init);

 protected:
  const Init init_;
};

}  // namespace fk
