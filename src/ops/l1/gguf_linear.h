// GGUFLinear: x W^T + b with W in a block format of GGUF files, one parameter per stacked matrix.
//
// Activations may be rounded to 8 bits, with one scale for the elements that meet one block of W: llama.cpp and vLLM do
// that, and it is what makes integer dot products possible. The tolerance is derived from this rounding.
#pragma once

#include "ops/contract.h"
#include "ops/formats/weight_format.h"
#include "ops/l1/linear.h"

namespace fk {

class GGUFLinear : public Operator {
 public:
  static constexpr std::string_view kName = "gguf_linear";
  static constexpr std::string_view kClass = "GGUFLinear";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t in_features = 0;  // whole blocks of the format
    int64_t out_features = 0;
    bool bias = false;
    bool float_output = false;               // logits: keep the f32 accumulators
    std::vector<int64_t> output_sizes = {};  // rows of each stacked matrix; empty: there is one
    // Of all of them, or of each: "q4_k+q4_k+q6_k" (ops/formats/format_map.h).
    std::string weight_format = "q8_0";
    DType dtype = DType::kBF16;  // of the bias

    template <class Visitor>
    void visit(Visitor&& v) {
      v("in_features", in_features);
      v("out_features", out_features);
      v("bias", bias);
      v("float_output", float_output);
      v("output_sizes", output_sizes);
      v("weight_format", weight_format);
      v("dtype", dtype);
    }
  };

  // x [T, in_features], rows contiguous -> out [T, out_features]. The weight is u8 [rows, bytes of a row], named
  // "weight", or "weight_0", "weight_1", ... where several are stacked.
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit GGUFLinear(const Init& init);
  virtual void forward(Context& ctx, View x, View out) = 0;

  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static Tolerance tolerance_on(const Init& init, DType dtype, Args given);
  static std::vector<Case<GGUFLinear>> cases();

 protected:
  struct Part {
    const WeightFormat* format;
    int64_t row, rows;  // of out
  };
  const View& weight(size_t part) const { return param(part); }
  const View& bias() const { return param(parts_.size()); }

  const Init init_;
  std::vector<Part> parts_;
};

}  // namespace fk
