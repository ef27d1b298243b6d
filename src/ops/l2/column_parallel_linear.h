// ColumnParallelLinear: a linear layer whose output features are split over the ranks.
#pragma once

#include "ops/l2/parallel_linear.h"
#include "ops/l2/tensor_parallel.h"

namespace fk {

class ColumnParallelLinear : public ParallelLinear<ColumnParallelLinear> {
 public:
  static constexpr std::string_view kName = "column_parallel_linear";
  static constexpr std::string_view kClass = "ColumnParallelLinear";

  struct Init {
    int64_t input_size = 0;
    int64_t output_size = 0;
    bool bias = false;
    bool skip_bias_add = false;
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
      v("tp_size", tp_size);
      v("tp_rank", tp_rank);
      v("weight_format", weight_format);
      v("dtype", dtype);
    }
  };

  explicit ColumnParallelLinear(const Init&) {}

  static int64_t out_features(const Init& init) {
    return rank_share(init.output_size, init.tp_size, "output features");
  }
  static Linear::Init local(const Init& init);
  static std::vector<Case<ColumnParallelLinear>> cases();
};

}  // namespace fk
