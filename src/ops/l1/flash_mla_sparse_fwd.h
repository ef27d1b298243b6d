// FlashMLASparseFwd: latent attention of each query over a list of keys of its own.
#pragma once

#include "ops/contract.h"

namespace fk {

class FlashMLASparseFwd : public Operator {
 public:
  static constexpr std::string_view kName = "flash_mla_sparse_fwd";
  static constexpr std::string_view kClass = "FlashMLASparseFwd";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_heads = 0;
    int64_t kv_lora_rank = 0;
    int64_t qk_rope_head_dim = 0;
    int64_t top_k = 0;  // entries of a list
    double softmax_scale = 1;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_heads", num_heads);
      v("kv_lora_rank", kv_lora_rank);
      v("qk_rope_head_dim", qk_rope_head_dim);
      v("top_k", top_k);
      v("softmax_scale", softmax_scale);
    }
  };

  // q_nope [T, H, L], q_pe [T, H, R]; kv_c_and_k_pe_cache [blocks, page size, L + R]; indices i32 [T, k]: positions of
  // keys in the query's sequence, negative ones are none; block_table i32 [S, n]; cu_seqlens_q i32 [S + 1], without it
  // every sequence has one query -> out [T, H, L], zero for a query without keys.
  static constexpr std::array kArgs{in("q_nope"),      in("q_pe"),            in("kv_c_and_k_pe_cache"), in("indices"),
                                    in("block_table"), opt_in("cu_seqlens_q"), out("out")};

  explicit FlashMLASparseFwd(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View q_nope, View q_pe, View kv_c_and_k_pe_cache, View indices, View block_table,
                       OptView cu_seqlens_q, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static Tolerance tolerance_on(const Init& init, DType dtype, Args given);
  static std::vector<Case<FlashMLASparseFwd>> cases();

 protected:
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

}  // namespace fk
