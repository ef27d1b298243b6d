// RWKV7Gates: from the projections of RWKV 7's time mixing to what its recurrence takes.
#pragma once

#include "ops/contract.h"

namespace fk {

class RWKV7Gates : public Operator {
 public:
  static constexpr std::string_view kName = "rwkv7_gates";
  static constexpr std::string_view kClass = "RWKV7Gates";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_heads = 0;
    int64_t head_dim = 0;
    double eps = 1e-6;  // of the norm of k * k_k, as in L2Norm
    DType dtype = DType::kBF16;

    int64_t width() const { return num_heads * head_dim; }

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_heads", num_heads);
      v("head_dim", head_dim);
      v("eps", eps);
      v("dtype", dtype);
    }
  };

  // w, k, v, a, v_gate, v_first [T, D], rows contiguous, with D = heads * head_dim; v_gate and v_first together or not
  // at all. With s the sigmoid and n the L2 norm of a head:
  //   decay f32 [T, D] = -e^-0.5 s(w)
  //   mixed [3, T, D], dense: k (1 + (s(a) - 1) k_a), then -n(k k_k), then n(k k_k) s(a)
  //   value [T, D] = v + (v_first - v) s(v_gate), where those are given
  static constexpr std::array kArgs{in("w"),           in("k"),      in("v"),      in("a"),         opt_in("v_gate"),
                                    opt_in("v_first"), out("decay"), out("mixed"), opt_out("value")};

  explicit RWKV7Gates(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View w, View k, View v, View a, OptView v_gate, OptView v_first, View decay,
                       View mixed, OptView value) = 0;

  // k_k and k_a [D].
  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<RWKV7Gates>> cases();

 protected:
  // Why no implementation on any device supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;
  const View& k_k() const { return param(0); }
  const View& k_a() const { return param(1); }

  static constexpr double kDecayScale = -0.6065306597126334;  // -e^-0.5
  const Init init_;
};

}  // namespace fk
