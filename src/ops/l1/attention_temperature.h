// AttentionTemperature: what queries of layers without a rotary embedding are multiplied by, which grows slowly with
// the position: 1 + attn_scale * log(1 + floor((position + 1) / floor_scale)).
#pragma once

#include "ops/contract.h"

namespace fk {

class AttentionTemperature : public Operator {
 public:
  static constexpr std::string_view kName = "attention_temperature";
  static constexpr std::string_view kClass = "AttentionTemperature";
  static constexpr int kLevel = 1;

  struct Init {
    double attn_scale = 0.1;
    int64_t floor_scale = 8192;
    DType dtype = DType::kBF16;  // of the model; the factors are f32 or wider

    template <class Visitor>
    void visit(Visitor&& v) {
      v("attn_scale", attn_scale);
      v("floor_scale", floor_scale);
      v("dtype", dtype);
    }
  };

  // positions i64 [T] -> factors f32 [T, 1].
  static constexpr std::array kArgs{in("positions"), out("factors")};

  explicit AttentionTemperature(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View factors) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<AttentionTemperature>> cases();

  static double factor_of(const Init& init, int64_t position);

 protected:
  const Init init_;
};

}  // namespace fk
