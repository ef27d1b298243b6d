// FusedAddcmulRWKV7: every token mixed with the one before it in several ways, each with a weight per channel.
#pragma once

#include <string>

#include "ops/contract.h"

namespace fk {

class FusedAddcmulRWKV7 : public Operator {
 public:
  static constexpr std::string_view kName = "fused_addcmul_rwkv7";
  static constexpr std::string_view kClass = "FusedAddcmulRWKV7";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t hidden_size = 0;
    std::string parts = "rwkvag";  // a weight for each letter: x_r, x_w, ...
    bool flat = false;             // weights are [D] in checkpoints, not [1, 1, D]
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("parts", parts);
      v("flat", flat);
      v("dtype", dtype);
    }
  };

  // x, delta [T, D], rows contiguous -> out [parts, T, D], dense: x + delta * weight.
  static constexpr std::array kArgs{in("x"), in("delta"), out("out")};

  explicit FusedAddcmulRWKV7(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View delta, View out) = 0;

  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<FusedAddcmulRWKV7>> cases();

 protected:
  int64_t parts() const { return static_cast<int64_t>(init_.parts.size()); }
  const Init init_;
};

}  // namespace fk
