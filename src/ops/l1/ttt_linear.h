// TTTLinear: attention by test-time training, as flash-linear-attention's chunk_ttt_linear. The state of a head is a
// linear model z = k W + b, which learns to reconstruct values from keys while it reads.
//
// A token's loss is the square of LN(k W + b) - (v - k), with LN the norm of the head, and g its gradient for z. Tokens
// of one mini-batch all use the model from before it; G is the sum of k^T g, and c that of g, over the tokens of the
// mini-batch so far. The token at its end makes the model of the next one. With u = scale q:
//
//   o = u (W - eta G) + b - eta c,   out = o + LN(o),   at the end of a mini-batch W <- W - eta G, b <- b - eta c
#pragma once

#include "ops/contract.h"

namespace fk {

class TTTLinear : public Operator {
 public:
  static constexpr std::string_view kName = "ttt_linear";
  static constexpr std::string_view kClass = "TTTLinear";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_heads = 0;
    int64_t head_dim = 0;
    int64_t mini_batch_size = 16;  // tokens that use one model: positions 0 to 15 of a sequence, 16 to 31, ...
    double scale = 0;              // of queries; 0: 1 / sqrt(head_dim)
    double eps = 1e-6;             // of the norm
    DType dtype = DType::kBF16;

    double query_scale() const;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_heads", num_heads);
      v("head_dim", head_dim);
      v("mini_batch_size", mini_batch_size);
      v("scale", scale);
      v("eps", eps);
      v("dtype", dtype);
    }
  };

  // q, k, v [T, H, D]; eta f32 [T, H]: the rate of learning; positions i64 [T], which rise by one inside a sequence.
  // ttt_state f32 [slots, H, 2 (D + 1), D], entries dense: the rows of W and of b, as what they differ by from the
  // weights, so that zeros are a new sequence; then those of G and c, which count for nothing at the start of a
  // mini-batch. state_slots i32 [S]; negative: a padding row, whose output is not used. Without cu_seqlens i32 [S + 1]
  // every sequence has one token.
  static constexpr std::array kArgs{in("q"),           in("k"),
                                    in("v"),           in("eta"),
                                    in("positions"),   state("ttt_state"),
                                    in("state_slots"), opt_in("cu_seqlens"),
                                    out("out")};

  explicit TTTLinear(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View q, View k, View v, View eta, View positions, View ttt_state, View state_slots,
                       OptView cu_seqlens, View out) = 0;

  // ttt_norm_weight, ttt_norm_bias [H, D]; W1 [H, D, D] and b1 [H, 1, D], the model of a new sequence. Names as in the
  // published checkpoints of TTT.
  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<TTTLinear>> cases();
  // The state of one sequence, for the operators that contain this one.
  static StateSpec recurrent_state(const Init& init);

 protected:
  // Why no implementation on any device supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;
  const View& norm_weight() const { return param(0); }
  const View& norm_bias() const { return param(1); }
  const View& W1() const { return param(2); }
  const View& b1() const { return param(3); }

  const Init init_;
};

}  // namespace fk
