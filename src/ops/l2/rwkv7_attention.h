// RWKV7Attention: the time mixing of RWKV 7. Projections of shifted tokens, low-rank gates, the recurrence, group norm.
#pragma once

#include "ops/contract.h"
#include "ops/l1/linear_recurrence.h"

namespace fk {

class RWKV7Attention : public Operator {
 public:
  static constexpr std::string_view kName = "rwkv7_attention";
  static constexpr std::string_view kClass = "RWKV7Attention";
  static constexpr int kLevel = 2;

  struct Init {
    int64_t hidden_size = 0;
    int64_t head_dim = 64;
    int64_t decay_low_rank_dim = 64;
    int64_t gate_low_rank_dim = 128;
    int64_t a_low_rank_dim = 64;
    int64_t v_low_rank_dim = 16;
    double norm_eps = 1e-5;    // of the group norm, times head_dim
    bool fuse_norm = false;    // changes only the eps of the L2 norm of keys
    bool first_layer = false;  // its values are those that later layers mix theirs with
    DType dtype = DType::kBF16;

    int64_t num_heads() const { return hidden_size / head_dim; }

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("head_dim", head_dim);
      v("decay_low_rank_dim", decay_low_rank_dim);
      v("gate_low_rank_dim", gate_low_rank_dim);
      v("a_low_rank_dim", a_low_rank_dim);
      v("v_low_rank_dim", v_low_rank_dim);
      v("norm_eps", norm_eps);
      v("fuse_norm", fuse_norm);
      v("first_layer", first_layer);
      v("dtype", dtype);
    }
  };

  // hidden_states [T, D]; v_first [T, D], the values of the first layer, which it returns as v_first_out itself.
  static constexpr std::array kArgs{in("hidden_states"), opt_in("v_first"), out("out"), opt_out("v_first_out")};

  explicit RWKV7Attention(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View hidden_states, OptView v_first, View out, OptView v_first_out) = 0;

  // A matrix for every head, and the last token.
  static std::vector<StateSpec> states(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<RWKV7Attention>> cases();
  static LinearRecurrenceInit recurrence(const Init& init);

 protected:
  const Init init_;
};

}  // namespace fk
