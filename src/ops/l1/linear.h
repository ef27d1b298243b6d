// Linear: x W^T + b, with W as checkpoints store it, [out_features, in_features].
#pragma once

#include "ops/contract.h"

namespace fk {

class Linear : public Operator {
 public:
  static constexpr std::string_view kName = "linear";
  static constexpr std::string_view kClass = "Linear";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t in_features = 0;
    int64_t out_features = 0;
    bool bias = false;
    bool float_output = false;               // logits: keep the f32 accumulators
    std::vector<int64_t> output_sizes = {};  // rows of each matrix stacked in the weight; empty: it is one
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("in_features", in_features);
      v("out_features", out_features);
      v("bias", bias);
      v("float_output", float_output);
      v("output_sizes", output_sizes);
      v("dtype", dtype);
    }
  };

  // x [T, in_features], rows contiguous -> out [T, out_features].
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit Linear(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out) = 0;

  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<Linear>> cases();

 protected:
  const View& weight() const { return param(0); }
  const void* bias_data() const { return init_.bias ? param(1).data() : nullptr; }
  const Init init_;
};

}  // namespace fk
