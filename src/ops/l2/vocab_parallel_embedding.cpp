#include "ops/l2/vocab_parallel_embedding.h"

#include "ops/l1/allreduce.h"
#include "ops/register.h"

namespace fk {

Cost VocabParallelEmbedding::cost(const Init& init, const Workload& w) {
  Embedding::Init rank = local(init);
  Cost cost = Embedding::cost(rank, w);
  // Rows of tokens that another rank holds are zeros, which are written but not read.
  auto held = static_cast<double>(rank.num_embeddings);
  double row = static_cast<double>(rank.embedding_dim) * static_cast<double>(dtype_size(rank.dtype));
  auto tokens = static_cast<double>(w.num_tokens());
  cost.read_bytes -=
      (distinct_rows(held, tokens) - distinct_rows(held, tokens / static_cast<double>(init.tp_size))) * row;
  return cost;
}

std::vector<Case<VocabParallelEmbedding>> VocabParallelEmbedding::cases() {
  return {
      {"plain", {.num_embeddings = 320, .embedding_dim = 64}, Workload::tokens(9)},
      {"scaled", {.num_embeddings = 257, .embedding_dim = 48, .scale = 6.9375}, Workload::tokens(5)},
      {"half",
       {.num_embeddings = 257, .embedding_dim = 48, .tp_size = 2, .reduce_results = false},
       Workload::tokens(9)},
  };
}

namespace {

class ComposedVocabParallelEmbedding final : public VocabParallelEmbedding {
 public:
  ComposedVocabParallelEmbedding(const Init& init, Builder& builder)
      : VocabParallelEmbedding(init), embedding_(builder.child<Embedding>("", local(init))) {
    if (init.reduce_results && init.tp_size > 1)
      all_reduce_.emplace(builder.child<AllReduce>("all_reduce", {.world_size = init.tp_size}));
  }

  void forward(Context& ctx, View input_ids, View out) override {
    if (all_reduce_)
      all_reduce_->into(ctx, embedding_(ctx, input_ids), out);
    else
      embedding_.into(ctx, input_ids, out);
  }

 private:
  Op<Embedding> embedding_;
  std::optional<Op<AllReduce>> all_reduce_;
};

FK_COMPOSITION(VocabParallelEmbedding, ComposedVocabParallelEmbedding);

}  // namespace
}  // namespace fk
