// Attention: attention over the paged cache. Stores the new keys and values, then runs decoding sequences, then
// prefilling ones.
#pragma once

#include "ops/contract.h"

namespace fk {

class Attention : public Operator {
 public:
  static constexpr std::string_view kName = "attention";
  static constexpr std::string_view kClass = "Attention";
  static constexpr int kLevel = 2;

  struct Init {
    int64_t num_heads = 0;
    int64_t head_size = 0;
    double scale = 1;
    int64_t num_kv_heads = 0;
    int64_t sliding_window = 0;        // 0: none
    double logits_soft_cap = 0;        // 0: none
    int64_t attention_chunk_size = 0;  // 0: none
    bool attention_sinks = false;      // as in FlashAttnDecode

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_heads", num_heads);
      v("head_size", head_size);
      v("scale", scale);
      v("num_kv_heads", num_kv_heads);
      v("sliding_window", sliding_window);
      v("logits_soft_cap", logits_soft_cap);
      v("attention_chunk_size", attention_chunk_size);
      v("attention_sinks", attention_sinks);
    }
  };

  // query [T, H * Dh], key and value [T, K * Dh], rows contiguous -> out [T, H * Dh]. The batch is the
  // context's.
  static constexpr std::array kArgs{in("query"), in("key"), in("value"), out("out")};

  explicit Attention(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View query, View key, View value, View out) = 0;

  // Keys and values of every token, [K, Dh] each.
  static std::vector<StateSpec> states(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static Tolerance tolerance_on(const Init& init, DType dtype, Args given);
  static std::vector<Case<Attention>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
