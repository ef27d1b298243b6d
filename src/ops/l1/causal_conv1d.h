// CausalConv1d: a convolution over the last tokens of each sequence, for every channel by itself. The tokens that a
// later call needs are kept in a window per sequence.
#pragma once

#include "ops/contract.h"

namespace fk {

class CausalConv1d : public Operator {
 public:
  static constexpr std::string_view kName = "causal_conv1d";
  static constexpr std::string_view kClass = "CausalConv1d";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t dim = 0;    // C, channels
    int64_t width = 4;  // W, tokens that an output sees, its own included; 2 to 8
    bool bias = false;
    bool silu = true;  // of the result
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("dim", dim);
      v("width", width);
      v("bias", bias);
      v("silu", silu);
      v("dtype", dtype);
    }
  };
  static constexpr int64_t kMaxWidth = 8;

  // x [T, C], rows contiguous; conv_state [slots, W - 1, C], entries dense: the last tokens before these, oldest first,
  // and after the call the last tokens so far. state_slots i32 [S], negative: the sequence starts from zeros and keeps
  // nothing. cu_seqlens i32 [S + 1]: vLLM's causal_conv1d_fn. Without it every sequence has one token: T = S, its
  // causal_conv1d_update.
  static constexpr std::array kArgs{in("x"), state("conv_state"), in("state_slots"), opt_in("cu_seqlens"), out("out")};

  explicit CausalConv1d(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View conv_state, View state_slots, OptView cu_seqlens, View out) = 0;

  // weight [C, 1, W], oldest token first, as torch stores it; bias [C].
  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<CausalConv1d>> cases();
  // The state of one sequence, for the operators that contain this one.
  static StateSpec window(const Init& init) {
    return {"conv_state", StateKind::kPerSequence, {init.width - 1, init.dim}};
  }

 protected:
  // Why no implementation on any device supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

}  // namespace fk
