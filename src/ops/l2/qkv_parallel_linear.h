// QKVParallelLinear: the query, key and value projections stacked into one product, heads split over the ranks.
#pragma once

#include "ops/l2/parallel_linear.h"

namespace fk {

class QKVParallelLinear : public ParallelLinear<QKVParallelLinear> {
 public:
  static constexpr std::string_view kName = "qkv_parallel_linear";
  static constexpr std::string_view kClass = "QKVParallelLinear";

  struct Init {
    int64_t hidden_size = 0;
    int64_t head_size = 0;
    int64_t total_num_heads = 0;
    int64_t total_num_kv_heads = 0;
    bool bias = false;
    bool skip_bias_add = false;
    int64_t tp_size = 1;
    int64_t tp_rank = 0;
    std::string weight_format = {};  // empty: elements of dtype; else as in GGUFLinear
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("hidden_size", hidden_size);
      v("head_size", head_size);
      v("total_num_heads", total_num_heads);
      v("total_num_kv_heads", total_num_kv_heads);
      v("bias", bias);
      v("skip_bias_add", skip_bias_add);
      v("tp_size", tp_size);
      v("tp_rank", tp_rank);
      v("weight_format", weight_format);
      v("dtype", dtype);
    }
  };

  explicit QKVParallelLinear(const Init&) {}

  static int64_t out_features(const Init& init);
  static Linear::Init local(const Init& init);
  static std::vector<Case<QKVParallelLinear>> cases();
};

}  // namespace fk
