// SelectiveScan: the recurrence of Mamba. Each channel d has a state of N numbers,
//   h[n] = exp(dt A[d, n]) h[n] + dt B[n] u,  y = sum_n C[n] h[n] + D u,  dt = softplus(delta + bias),
// and the output is y silu(z).
#pragma once

#include "ops/contract.h"

namespace fk {

class SelectiveScan : public Operator {
 public:
  static constexpr std::string_view kName = "selective_scan";
  static constexpr std::string_view kClass = "SelectiveScan";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t dim = 0;         // channels
    int64_t state_size = 0;  // N
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("dim", dim);
      v("state_size", state_size);
      v("dtype", dtype);
    }
  };

  // u, delta, z [T, D]; B, C [T, N]; rows contiguous. ssm_state f32 [slots, D, N], entries dense: h before these
  // tokens, and after the call h after them. state_slots i32 [S], negative: the sequence starts from zeros and keeps
  // nothing. cu_seqlens i32 [S + 1]: vLLM's selective_scan_fn. Without it every sequence has one token: T = S, its
  // selective_state_update.
  static constexpr std::array kArgs{in("u"),   in("delta"),        in("B"),           in("C"),
                                    in("z"),   state("ssm_state"), in("state_slots"), opt_in("cu_seqlens"),
                                    out("out")};

  explicit SelectiveScan(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View u, View delta, View B, View C, View z, View ssm_state, View state_slots,
                       OptView cu_seqlens, View out) = 0;

  // A_log [D, N], with A = -exp(A_log); D [D]; dt_proj.bias [D], as checkpoints call it.
  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<SelectiveScan>> cases();
  // The state of one sequence, for the operators that contain this one.
  static StateSpec recurrent_state(const Init& init);

 protected:
  // Why no implementation on any device supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;
  const View& A_log() const { return param(0); }
  const View& skip() const { return param(1); }
  const View& dt_bias() const { return param(2); }

  const Init init_;
};

}  // namespace fk
