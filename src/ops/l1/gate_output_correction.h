// GateOutputCorrection: the end of RWKV 7's time mixing: what a token gives itself is added, then the output gate.
#pragma once

#include "ops/contract.h"

namespace fk {

class GateOutputCorrection : public Operator {
 public:
  static constexpr std::string_view kName = "gate_output_correction";
  static constexpr std::string_view kClass = "GateOutputCorrection";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_heads = 0;
    int64_t head_dim = 0;
    DType dtype = DType::kBF16;

    int64_t width() const { return num_heads * head_dim; }

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_heads", num_heads);
      v("head_dim", head_dim);
      v("dtype", dtype);
    }
  };

  // o, r, k, v, g, out [T, D], rows contiguous: (o + v * (sum of r k r_k over the head)) * g.
  static constexpr std::array kArgs{in("o"), in("r"), in("k"), in("v"), in("g"), out("out")};

  explicit GateOutputCorrection(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View o, View r, View k, View v, View g, View out) = 0;

  // r_k [H, head_dim].
  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<GateOutputCorrection>> cases();

 protected:
  const View& r_k() const { return param(0); }
  const Init init_;
};

}  // namespace fk
