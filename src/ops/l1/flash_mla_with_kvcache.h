// FlashMLAWithKVCache: latent attention on the latents in the paged cache themselves. All heads share them: keys are the
// whole entries, values their first part.
#pragma once

#include "ops/contract.h"

namespace fk {

class FlashMLAWithKVCache : public Operator {
 public:
  static constexpr std::string_view kName = "flash_mla_with_kvcache";
  static constexpr std::string_view kClass = "FlashMLAWithKVCache";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_heads = 0;
    int64_t kv_lora_rank = 0;
    int64_t qk_rope_head_dim = 0;
    double softmax_scale = 1;
    // A query sees the keys before the new tokens of its sequence; else also those of the new tokens up to its own.
    bool context_only = false;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_heads", num_heads);
      v("kv_lora_rank", kv_lora_rank);
      v("qk_rope_head_dim", qk_rope_head_dim);
      v("softmax_scale", softmax_scale);
      v("context_only", context_only);
    }
  };

  // q_nope [T, H, L], q_pe [T, H, R]; kv_c_and_k_pe_cache [blocks, page size, L + R]; seq_lens i32 [S] counts the new
  // tokens; block_table i32 [S, n]; cu_seqlens_q i32 [S + 1], without it every sequence has one query -> out [T, H, L],
  // lse f32 [H, T]: zero and -infinity for a query without keys.
  static constexpr std::array kArgs{in("q_nope"),      in("q_pe"),            in("kv_c_and_k_pe_cache"), in("seq_lens"),
                                    in("block_table"), opt_in("cu_seqlens_q"), out("out"),                out("lse")};

  explicit FlashMLAWithKVCache(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View q_nope, View q_pe, View kv_c_and_k_pe_cache, View seq_lens, View block_table,
                       OptView cu_seqlens_q, View out, View lse) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static Tolerance tolerance_on(const Init& init, DType dtype, Args given);
  static std::vector<Case<FlashMLAWithKVCache>> cases();

 protected:
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

// Of scores over latents: norms of both parts of the queries, and of the entries of the cache.
Tolerance tolerance_on_latents(Tolerance usual, const View& q_nope, const View& q_pe, const View& cache,
                               double softmax_scale);

}  // namespace fk
