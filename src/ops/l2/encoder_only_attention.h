// EncoderOnlyAttention: every token attends to all tokens of its sequence, before and after it. Nothing is kept between
// calls.
#pragma once

#include "ops/contract.h"
#include "ops/l1/flash_attn_prefill.h"

namespace fk {

class EncoderOnlyAttention : public Operator {
 public:
  static constexpr std::string_view kName = "encoder_only_attention";
  static constexpr std::string_view kClass = "EncoderOnlyAttention";
  static constexpr int kLevel = 2;

  struct Init {
    int64_t num_heads = 0;
    int64_t head_size = 0;
    double scale = 1;
    int64_t num_kv_heads = 0;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_heads", num_heads);
      v("head_size", head_size);
      v("scale", scale);
      v("num_kv_heads", num_kv_heads);
    }
  };

  // query [T, H * Dh], key and value [T, K * Dh], rows contiguous; cu_seqlens i32 [S+1]: where the tokens of each
  // sequence start -> out [T, H * Dh].
  static constexpr std::array kArgs{in("query"), in("key"), in("value"), in("cu_seqlens"), out("out")};

  explicit EncoderOnlyAttention(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View query, View key, View value, View cu_seqlens, View out) = 0;

  static FlashAttnPrefill::Init core(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static Tolerance tolerance_on(const Init& init, DType dtype, Args given);
  static std::vector<Case<EncoderOnlyAttention>> cases();

 protected:
  const Init init_;
};

// The input of an encoder's operators that says where each sequence of a workload starts.
InputSpec sequence_starts(const Workload& workload);
// The same workload without contexts: an encoder has none, whatever a workload says.
Workload without_contexts(const Workload& workload);

}  // namespace fk
