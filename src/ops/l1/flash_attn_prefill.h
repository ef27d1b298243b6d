// FlashAttnPrefill: attention of several new tokens per sequence over dense keys or keys in the paged cache.
#pragma once

#include "ops/contract.h"

namespace fk {

class FlashAttnPrefill : public Operator {
 public:
  static constexpr std::string_view kName = "flash_attn_prefill";
  static constexpr std::string_view kClass = "FlashAttnPrefill";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_heads = 0;
    int64_t num_kv_heads = 0;
    int64_t head_size = 0;
    double softmax_scale = 1;
    bool causal = true;
    int64_t sliding_window = 0;        // keys a query sees, itself included; 0: all before it
    double logits_soft_cap = 0;        // cap * tanh(score / cap); 0: none
    int64_t attention_chunk_size = 0;  // a query sees only keys of its own chunk of so many positions; 0: no chunks
    bool attention_sinks = false;      // each head has a learned score that takes part in the softmax without a value

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_heads", num_heads);
      v("num_kv_heads", num_kv_heads);
      v("head_size", head_size);
      v("softmax_scale", softmax_scale);
      v("causal", causal);
      v("sliding_window", sliding_window);
      v("logits_soft_cap", logits_soft_cap);
      v("attention_chunk_size", attention_chunk_size);
      v("attention_sinks", attention_sinks);
    }
  };

  // q, out [T, H, Dh]. Without block_table: k, v [Tk, K, Dh], sequence s at cu_seqlens_k[s]. With it: k, v are caches
  // [blocks, page size, K, Dh]. The last query of a sequence is aligned with its last key. Tables are i32.
  static constexpr std::array kArgs{
      in("q"), in("k"), in("v"), in("cu_seqlens_q"), in("cu_seqlens_k"), opt_in("block_table"), out("out")};

  explicit FlashAttnPrefill(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View q, View k, View v, View cu_seqlens_q, View cu_seqlens_k, OptView block_table,
                       View out) = 0;

  // The sinks, f32 [H], where there are some.
  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static Tolerance tolerance_on(const Init& init, DType dtype, Args given);
  static std::vector<Case<FlashAttnPrefill>> cases();

 protected:
  OptView sinks() const { return init_.attention_sinks ? OptView(param(0)) : std::nullopt; }
  const Init init_;
};

}  // namespace fk
