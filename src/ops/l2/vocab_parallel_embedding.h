// VocabParallelEmbedding: the token embedding; one rank holds the whole vocabulary here.
#pragma once

#include "ops/l1/embedding.h"

namespace fk {

class VocabParallelEmbedding : public Operator {
 public:
  static constexpr std::string_view kName = "vocab_parallel_embedding";
  static constexpr std::string_view kClass = "VocabParallelEmbedding";
  static constexpr int kLevel = 2;

  using Init = Embedding::Init;

  // input_ids i64 [T] -> out [T, D].
  static constexpr std::array kArgs{in("input_ids"), out("out")};

  explicit VocabParallelEmbedding(const Init&) {}
  virtual void forward(Context& ctx, View input_ids, View out) = 0;

  static OutputSpecs outputs(const Init& init, Args given) { return Embedding::outputs(init, given); }
  static Inputs inputs(const Init& init, const Workload& w) { return Embedding::inputs(init, w); }
  static Cost cost(const Init& init, const Workload& w) { return Embedding::cost(init, w); }
  static Tolerance tolerance(const Init& init, DType dtype) { return Embedding::tolerance(init, dtype); }
  static std::vector<Case<VocabParallelEmbedding>> cases();
};

}  // namespace fk
