// SiluMulQuantFp8: silu(gate) * up, rounded to FP8 e4m3 with one scale for every group of a token.
#pragma once

#include "ops/contract.h"

namespace fk {

class SiluMulQuantFp8 : public Operator {
 public:
  static constexpr std::string_view kName = "silu_mul_quant_fp8";
  static constexpr std::string_view kClass = "SiluMulQuantFp8";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t group_size = 128;  // 0: one scale for a token

    template <class Visitor>
    void visit(Visitor&& v) {
      v("group_size", group_size);
    }
  };

  // x [T, 2 F], rows contiguous: gate and up -> out FP8 [T, F], scales f32 [T, F / group_size].
  static constexpr std::array kArgs{in("x"), out("out"), out("scales")};

  explicit SiluMulQuantFp8(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, View out, View scales) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Workload possible(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<SiluMulQuantFp8>> cases();
  static std::string judge(const Init& init, Args call, Args reference);

 protected:
  const Init init_;
};

}  // namespace fk
