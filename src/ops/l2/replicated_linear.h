// ReplicatedLinear: a linear layer of which every rank has a full copy.
#pragma once

#include "ops/l2/parallel_linear.h"

namespace fk {

class ReplicatedLinear : public ParallelLinear<ReplicatedLinear> {
 public:
  static constexpr std::string_view kName = "replicated_linear";
  static constexpr std::string_view kClass = "ReplicatedLinear";

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

  explicit ReplicatedLinear(const Init&) {}

  static int64_t out_features(const Init& init) { return init.output_size; }
  static Linear::Init local(const Init& init);
  static std::vector<Case<ReplicatedLinear>> cases();
};

}  // namespace fk
