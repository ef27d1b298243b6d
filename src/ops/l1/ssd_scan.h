// SSDScan: the recurrence of Mamba 2 (state space duality). Each head has a state of P x N numbers and one decay,
//   h[p, n] = exp(dt A) h[p, n] + dt x[p] B[n],  y[p] = sum_n C[n] h[p, n] + D x[p],  dt = softplus(dt + bias),
// with B and C shared by the heads of a group.
#pragma once

#include "ops/contract.h"

namespace fk {

class SSDScan : public Operator {
 public:
  static constexpr std::string_view kName = "ssd_scan";
  static constexpr std::string_view kClass = "SSDScan";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_heads = 0;   // H
    int64_t head_dim = 0;    // P
    int64_t state_size = 0;  // N
    int64_t n_groups = 1;    // G, a divisor of H
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_heads", num_heads);
      v("head_dim", head_dim);
      v("state_size", state_size);
      v("n_groups", n_groups);
      v("dtype", dtype);
    }
  };

  // x [T, H * P]; dt [T, H]; B, C [T, G * N]; rows contiguous. ssm_state f32 [slots, H, P, N], entries dense: h before
  // these tokens, and after the call h after them. state_slots i32 [S], negative: the sequence starts from zeros and
  // keeps nothing. cu_seqlens i32 [S + 1]: vLLM's mamba_chunk_scan_combined. Without it every sequence has one token: T
  // = S, its selective_state_update.
  static constexpr std::array kArgs{
      in("x"), in("dt"), in("B"), in("C"), state("ssm_state"), in("state_slots"), opt_in("cu_seqlens"), out("out")};

  explicit SSDScan(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View dt, View B, View C, View ssm_state, View state_slots,
                       OptView cu_seqlens, View out) = 0;

  // A_log [H], with A = -exp(A_log); D [H]; dt_bias [H].
  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<SSDScan>> cases();
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
