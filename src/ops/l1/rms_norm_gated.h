// RMSNormGated: an RMS norm of groups of a row, and a gate. Of Mamba 2 (the gate first) and of linear attention (the
// norm first).
#pragma once

#include <string>

#include "ops/contract.h"

namespace fk {

class RMSNormGated : public Operator {
 public:
  static constexpr std::string_view kName = "rms_norm_gated";
  static constexpr std::string_view kClass = "RMSNormGated";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t hidden_size = 0;  // D
    double eps = 1e-5;
    int64_t group_size = 0;         // elements normed together, a divisor of D; 0: all of a row
    bool norm_before_gate = false;  // norm(x) * act(gate); else norm(x * act(gate))
    bool sigmoid = false;           // act is the sigmoid, not SiLU
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("eps", eps);
      v("group_size", group_size);
      v("norm_before_gate", norm_before_gate);
      v("sigmoid", sigmoid);
      v("dtype", dtype);
    }
    int64_t group() const { return group_size > 0 ? group_size : hidden_size; }
  };

  // x, gate [T, D], or of heads [T, H, D] that share the weight; rows contiguous. out has x's shape. Rounded once.
  static constexpr std::array kArgs{in("x"), in("gate"), out("out")};

  explicit RMSNormGated(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View gate, View out) = 0;

  // weight [D].
  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<RMSNormGated>> cases();

 protected:
  // Why no implementation on any device supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;
  const View& weight() const { return param(0); }

  const Init init_;
};

}  // namespace fk
