#include "ops/l2/vocab_parallel_embedding.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<VocabParallelEmbedding>> VocabParallelEmbedding::cases() {
  return {
      {"plain", {.num_embeddings = 320, .embedding_dim = 64}, Workload::tokens(9)},
      {"scaled", {.num_embeddings = 257, .embedding_dim = 48, .scale = 6.9375}, Workload::tokens(5)},
  };
}

namespace {

class ComposedVocabParallelEmbedding final : public VocabParallelEmbedding {
 public:
  ComposedVocabParallelEmbedding(const Init& init, Builder& builder)
      : VocabParallelEmbedding(init), embedding_(builder.child<Embedding>("", init)) {}

  void forward(Context& ctx, View input_ids, View out) override { embedding_.into(ctx, input_ids, out); }

 private:
  Op<Embedding> embedding_;
};

FK_COMPOSITION(VocabParallelEmbedding, ComposedVocabParallelEmbedding);

}  // namespace
}  // namespace fk
