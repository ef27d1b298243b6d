// SiglipMLP: a feed-forward block without a gate: linear, activation, linear, with biases.
#pragma once

#include "ops/contract.h"

namespace fk {

class SiglipMLP : public Operator {
 public:
  static constexpr std::string_view kName = "siglip_mlp";
  static constexpr std::string_view kClass = "SiglipMLP";
  static constexpr int kLevel = 2;

  struct Init {
    int64_t hidden_size = 0;
    int64_t intermediate_size = 0;
    std::string hidden_act = "gelu_pytorch_tanh";
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("intermediate_size", intermediate_size);
      v("hidden_act", hidden_act);
      v("dtype", dtype);
    }
  };

  // x [T, D] -> out [T, D].
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit SiglipMLP(const Init&) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<SiglipMLP>> cases();
};

}  // namespace fk
