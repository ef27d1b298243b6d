// AttentionPool: attention of one query, the same for all sequences, over the tokens of each: one vector a sequence.
#pragma once

#include "ops/contract.h"

namespace fk {

class AttentionPool : public Operator {
 public:
  static constexpr std::string_view kName = "attention_pool";
  static constexpr std::string_view kClass = "AttentionPool";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_heads = 0;
    int64_t head_size = 0;
    double scale = 1;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_heads", num_heads);
      v("head_size", head_size);
      v("scale", scale);
    }
  };

  // query [1, H * Dh]; key, value [T, H * Dh], rows contiguous; cu_seqlens i32 [S+1]: where the tokens of each sequence
  // start -> out [S, H * Dh]. A sequence without tokens gives zeros.
  static constexpr std::array kArgs{in("query"), in("key"), in("value"), in("cu_seqlens"), out("out")};

  explicit AttentionPool(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View query, View key, View value, View cu_seqlens, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static Tolerance tolerance_on(const Init& init, DType dtype, Args given);
  static std::vector<Case<AttentionPool>> cases();

 protected:
  // Why no implementation supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

}  // namespace fk
