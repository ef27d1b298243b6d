// MergedColumnParallelLinear: several column-parallel layers over one input, stacked into one product.
#pragma once

#include "ops/l2/parallel_linear.h"

namespace fk {

class MergedColumnParallelLinear : public ParallelLinear<MergedColumnParallelLinear> {
 public:
  static constexpr std::string_view kName = "merged_column_parallel_linear";
  static constexpr std::string_view kClass = "MergedColumnParallelLinear";

  struct Init {
    int64_t input_size = 0;
    std::vector<int64_t> output_sizes = {};
    bool bias = false;
    bool skip_bias_add = false;
    int64_t tp_size = 1;
    int64_t tp_rank = 0;
    std::string weight_format = {};  // empty: elements of dtype; else as in GGUFLinear
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("input_size", input_size);
      v("output_sizes", output_sizes);
      v("bias", bias);
      v("skip_bias_add", skip_bias_add);
      v("tp_size", tp_size);
      v("tp_rank", tp_rank);
      v("weight_format", weight_format);
      v("dtype", dtype);
    }
  };

  explicit MergedColumnParallelLinear(const Init&) {}

  static int64_t out_features(const Init& init);
  static Linear::Init local(const Init& init);
  static std::vector<Case<MergedColumnParallelLinear>> cases();
};

}  // namespace fk
