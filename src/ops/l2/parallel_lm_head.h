// ParallelLMHead: logits of the vocabulary, in f32 like the accumulators.
#pragma once

#include "ops/l2/any_linear.h"
#include "ops/l2/tensor_parallel.h"

namespace fk {

class ParallelLMHead : public Operator {
 public:
  static constexpr std::string_view kName = "parallel_lm_head";
  static constexpr std::string_view kClass = "ParallelLMHead";
  static constexpr int kLevel = 2;

  struct Init {
    int64_t num_embeddings = 0;
    int64_t embedding_dim = 0;
    bool bias = false;
    int64_t tp_size = 1;             // ranks the vocabulary is divided over
    std::string weight_format = {};  // empty: elements of dtype; else as in GGUFLinear
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_embeddings", num_embeddings);
      v("embedding_dim", embedding_dim);
      v("bias", bias);
      v("tp_size", tp_size);
      v("weight_format", weight_format);
      v("dtype", dtype);
    }
  };

  // hidden_states [L, D] -> logits [L, V] of this rank's part of the vocabulary, f32 or wider.
  static constexpr std::array kArgs{in("hidden_states"), out("logits")};

  explicit ParallelLMHead(const Init&) {}
  virtual void forward(Context& ctx, View hidden_states, View logits) = 0;

  static Linear::Init product(const Init& init) {
    return {.in_features = init.embedding_dim,
            .out_features = rank_vocab(init.num_embeddings, init.tp_size),
            .bias = init.bias,
            .float_output = true,
            .dtype = init.dtype};
  }
  static OutputSpecs outputs(const Init& init, Args given) { return Linear::outputs(product(init), given); }
  static Inputs inputs(const Init& init, const Workload& w) { return Linear::inputs(product(init), w); }
  static Cost cost(const Init& init, const Workload& w) { return product_cost(product(init), init.weight_format, w); }
  static Tolerance tolerance(const Init& init, DType dtype) {
    return product_tolerance(product(init), init.weight_format, dtype);
  }
  static std::vector<Case<ParallelLMHead>> cases();
};

}  // namespace fk
