// TokenShift: the token before each token minus it, as RWKV mixes them; the last token of a sequence is its state.
#pragma once

#include "ops/contract.h"

namespace fk {

class TokenShift : public Operator {
 public:
  static constexpr std::string_view kName = "token_shift";
  static constexpr std::string_view kClass = "TokenShift";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t hidden_size = 0;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
    }
  };

  // x [T, D], rows contiguous; shift_state [slots, D], rows contiguous, of x's dtype; state_slots i32 [S], negative:
  // the token before the first is zero and the last is not stored; cu_seqlens i32 [S + 1], none: one token a sequence
  // -> out [T, D].
  static constexpr std::array kArgs{in("x"), state("shift_state"), in("state_slots"), opt_in("cu_seqlens"), out("out")};

  explicit TokenShift(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View shift_state, View state_slots, OptView cu_seqlens, View out) = 0;

  static StateSpec window(std::string name, const Init& init) {
    return {std::move(name), StateKind::kPerSequence, {init.hidden_size}};
  }
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<TokenShift>> cases();

 protected:
  // Why no implementation on any device supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

}  // namespace fk
