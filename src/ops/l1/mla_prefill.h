// MLAPrefill: causal attention among the new tokens of each sequence, on keys and values that were projected up from
// the latents. Heads of keys and of values differ in size, and all heads share the rotated part of the keys.
#pragma once

#include "ops/contract.h"

namespace fk {

class MLAPrefill : public Operator {
 public:
  static constexpr std::string_view kName = "mla_prefill";
  static constexpr std::string_view kClass = "MLAPrefill";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_heads = 0;
    int64_t qk_nope_head_dim = 0;
    int64_t qk_rope_head_dim = 0;
    int64_t v_head_dim = 0;
    double softmax_scale = 1;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_heads", num_heads);
      v("qk_nope_head_dim", qk_nope_head_dim);
      v("qk_rope_head_dim", qk_rope_head_dim);
      v("v_head_dim", v_head_dim);
      v("softmax_scale", softmax_scale);
    }
  };

  // q [T, H, nope + rope]; kv [T, H, nope + v]: the keys' first part and the values; k_pe [T, rope]; cu_seqlens i32
  // [S + 1] -> out [T, H, v], lse f32 [H, T].
  static constexpr std::array kArgs{in("q"), in("kv"), in("k_pe"), in("cu_seqlens"), out("out"), out("lse")};

  explicit MLAPrefill(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View q, View kv, View k_pe, View cu_seqlens, View out, View lse) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static Tolerance tolerance_on(const Init& init, DType dtype, Args given);
  static std::vector<Case<MLAPrefill>> cases();

 protected:
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

}  // namespace fk
