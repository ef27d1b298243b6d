// AttentionTemperature: queries of layers without a rotary embedding times a factor that grows slowly with the
// position: 1 + attn_scale * log(1 + floor((position + 1) / floor_scale)).
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

    template <class Visitor>
    void visit(Visitor&& v) {
      v("attn_scale", attn_scale);
      v("floor_scale", floor_scale);
    }
  };

  // positions i64 [T]; query [T, H * head_size], rows contiguous -> out like query, rounded once.
  static constexpr std::array kArgs{in("positions"), in("query"), out("out")};

  explicit AttentionTemperature(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View positions, View query, View out) = 0;

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
