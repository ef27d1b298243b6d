// PerHeadLinear: every head's row times a matrix of its own, which is a part of one stacked matrix that other operators
// may use, too: latent attention moves the up-projection of its keys to the queries, and that of its values behind the
// attention.
#pragma once

#include "ops/contract.h"
#include "ops/formats/scaled_format.h"

namespace fk {

class PerHeadLinear : public Operator {
 public:
  static constexpr std::string_view kName = "per_head_linear";
  static constexpr std::string_view kClass = "PerHeadLinear";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_heads = 0;
    int64_t in_features = 0;  // of a head, here as below
    int64_t out_features = 0;
    int64_t rows_per_head = 0;  // of the stacked matrix
    int64_t first_row = 0;      // which of them is the first of this product
    // The rows are those of the input: x W; else those of the output: x W^T.
    bool transposed = false;
    std::string weight_format = {};  // a ScaledFormat (ops/formats/scaled_format.h); empty: elements of dtype
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_heads", num_heads);
      v("in_features", in_features);
      v("out_features", out_features);
      v("rows_per_head", rows_per_head);
      v("first_row", first_row);
      v("transposed", transposed);
      v("weight_format", weight_format);
      v("dtype", dtype);
    }
  };

  // x [T, H, in_features] -> out [T, H, out_features]. The weight is [H * rows_per_head, in_features], or out_features
  // where it is transposed.
  static constexpr std::array kArgs{in("x"), out("out")};

  explicit PerHeadLinear(const Init& init);
  virtual void forward(Context& ctx, View x, View out) = 0;

  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<PerHeadLinear>> cases();

  static int64_t columns(const Init& init) { return init.transposed ? init.out_features : init.in_features; }
  static int64_t rows(const Init& init) { return init.transposed ? init.in_features : init.out_features; }

 protected:
  std::string_view refuse_call(Args args) const;
  // Row i of a head's matrix as it is stored, in f32.
  void read_row(int64_t head, int64_t i, std::span<float> values) const;
  const View& weight() const { return param(0); }

  const Init init_;
  const ScaledFormat* const format_;  // nullptr: elements
};

}  // namespace fk
