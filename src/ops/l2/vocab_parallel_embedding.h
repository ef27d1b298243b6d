// VocabParallelEmbedding: the token embedding, with its rows divided over the ranks. A rank returns zeros for tokens of
// other ranks, and the all-reduce gives the embedding.
#pragma once

#include "ops/l1/gguf_embedding.h"
#include "ops/l2/tensor_parallel.h"

namespace fk {

class VocabParallelEmbedding : public Operator {
 public:
  static constexpr std::string_view kName = "vocab_parallel_embedding";
  static constexpr std::string_view kClass = "VocabParallelEmbedding";
  static constexpr int kLevel = 2;

  struct Init {
    int64_t num_embeddings = 0;
    int64_t embedding_dim = 0;
    double scale = 1;                // rows are multiplied by it
    int64_t tp_size = 1;             // ranks the vocabulary is divided over
    int64_t tp_rank = 0;             // which of them this is
    bool reduce_results = true;      // add up the ranks' outputs; else each keeps its part
    std::string weight_format = {};  // empty: elements of dtype; else as in GGUFEmbedding
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_embeddings", num_embeddings);
      v("embedding_dim", embedding_dim);
      v("scale", scale);
      v("tp_size", tp_size);
      v("tp_rank", tp_rank);
      v("reduce_results", reduce_results);
      v("weight_format", weight_format);
      v("dtype", dtype);
    }
  };

  // input_ids i64 [T] -> out [T, D].
  static constexpr std::array kArgs{in("input_ids"), out("out")};

  explicit VocabParallelEmbedding(const Init&) {}
  virtual void forward(Context& ctx, View input_ids, View out) = 0;

  static Embedding::Init local(const Init& init) {
    return {.num_embeddings = rank_vocab(init.num_embeddings, init.tp_size),
            .embedding_dim = init.embedding_dim,
            .scale = init.scale,
            .dtype = init.dtype};
  }
  static OutputSpecs outputs(const Init& init, Args given) { return Embedding::outputs(local(init), given); }
  // Tokens of the whole vocabulary, most of which another rank holds.
  static Inputs inputs(const Init& init, const Workload& w) {
    return {InputSpec{{{w.num_tokens()}, DType::kI64}, Generator::integers(0, init.num_embeddings)}};
  }
  static Cost cost(const Init& init, const Workload& w);
  static Tolerance tolerance(const Init& init, DType dtype) {
    return init.weight_format.empty() ? Embedding::tolerance(local(init), dtype) : rounding_tolerance(dtype);
  }
  static std::vector<Case<VocabParallelEmbedding>> cases();
};

}  // namespace fk
