// RowParallelLinear: a linear layer whose input features are split over the ranks; their partial sums are added up.
#pragma once

#include "ops/l2/parallel_linear.h"

namespace fk {

class RowParallelLinear : public ParallelLinear<RowParallelLinear> {
 public:
  static constexpr std::string_view kName = "row_parallel_linear";
  static constexpr std::string_view kClass = "RowParallelLinear";

  struct Init {
    int64_t input_size = 0;
    int64_t output_size = 0;
    bool bias = false;
    bool skip_bias_add = false;
    bool reduce_results = true;
    int64_t tp_size = 1;
    int64_t tp_rank = 0;
    std::string weight_format = {};  // empty: elements of dtype; else as in GGUFLinear
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("input_size", input_size);
      v("output_size", output_size);
      v("bias", bias);
      v("skip_bias_add", skip_bias_add);
      v("reduce_results", reduce_results);
      v("tp_size", tp_size);
      v("tp_rank", tp_rank);
      v("weight_format", weight_format);
      v("dtype", dtype);
    }
  };

  explicit RowParallelLinear(const Init& init) : init_(init) {}

  static int64_t out_features(const Init& init) { return init.output_size; }
  static Linear::Init local(const Init& init);
  static std::vector<Case<RowParallelLinear>> cases();

 protected:
  const Init init_;
};

}  // namespace fk
