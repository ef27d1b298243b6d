// FusedQKVZSplitReshapeCat: the projection of a gated delta net, stored head by head, as queries, keys and values side
// by side, and the gate.
#pragma once

#include "ops/contract.h"

namespace fk {

class FusedQKVZSplitReshapeCat : public Operator {
 public:
  static constexpr std::string_view kName = "fused_qkvz_split_reshape_cat";
  static constexpr std::string_view kClass = "FusedQKVZSplitReshapeCat";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_k_heads = 0;
    int64_t num_v_heads = 0;  // a multiple of num_k_heads
    int64_t head_k_dim = 0;
    int64_t head_v_dim = 0;

    int64_t keys() const { return num_k_heads * head_k_dim; }
    int64_t values() const { return num_v_heads * head_v_dim; }

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_k_heads", num_k_heads);
      v("num_v_heads", num_v_heads);
      v("head_k_dim", head_k_dim);
      v("head_v_dim", head_v_dim);
    }
  };

  // qkvz [T, 2 keys + 2 values]: for each head of keys its query, key, and the values and gates of the heads of values
  // that share it -> qkv [T, 2 keys + values]: all queries, all keys, all values; z [T, values]. Copies; rows
  // contiguous.
  static constexpr std::array kArgs{in("qkvz"), out("qkv"), out("z")};

  explicit FusedQKVZSplitReshapeCat(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View qkvz, View qkv, View z) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<FusedQKVZSplitReshapeCat>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
