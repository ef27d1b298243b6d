#include "ops/l2/vocab_parallel_embedding.h"

#include "ops/l1/allreduce.h"
#include "ops/l1/shift_ids.h"
#include "ops/register.h"

namespace fk {

Cost VocabParallelEmbedding::cost(const Init& init, const Workload& w) {
  Embedding::Init rank = local(init);
  Cost cost = init.weight_format.empty() ? Embedding::cost(rank, w)
                                         : GGUFEmbedding::cost(GGUFEmbedding::of(rank, init.weight_format), w);
  // Rows of tokens that another rank holds are zeros, which are written but not read.
  auto held = static_cast<double>(rank.num_embeddings);
  double row = matrix_bytes(init.weight_format, 1, rank.embedding_dim, rank.dtype);
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
      {"the second half",
       {.num_embeddings = 257, .embedding_dim = 48, .tp_size = 2, .tp_rank = 1, .reduce_results = false},
       Workload::tokens(9)},
  };
}

namespace {

class ComposedVocabParallelEmbedding final : public VocabParallelEmbedding {
 public:
  ComposedVocabParallelEmbedding(const Init& init, Builder& builder) : VocabParallelEmbedding(init) {
    if (init.weight_format.empty())
      embedding_.emplace(builder.child<Embedding>("", local(init)));
    else
      gguf_.emplace(builder.child<GGUFEmbedding>("", GGUFEmbedding::of(local(init), init.weight_format)));
    if (init.tp_rank > 0)
      shift_.emplace(builder.child<ShiftIds>("shift_ids", {.first = init.tp_rank * local(init).num_embeddings}));
    if (init.reduce_results && init.tp_size > 1)
      all_reduce_.emplace(builder.child<AllReduce>("all_reduce", {.world_size = init.tp_size, .rank = init.tp_rank}));
  }

  void forward(Context& ctx, View input_ids, View out) override {
    View ids = shift_ ? (*shift_)(ctx, input_ids) : input_ids;
    if (all_reduce_)
      all_reduce_->into(ctx, embedding_ ? (*embedding_)(ctx, ids) : (*gguf_)(ctx, ids), out);
    else if (embedding_)
      embedding_->into(ctx, ids, out);
    else
      gguf_->into(ctx, ids, out);
  }

 private:
  std::optional<Op<Embedding>> embedding_;
  std::optional<Op<GGUFEmbedding>> gguf_;
  std::optional<Op<ShiftIds>> shift_;  // the first row of this rank is token 0 of its table
  std::optional<Op<AllReduce>> all_reduce_;
};

FK_COMPOSITION(VocabParallelEmbedding, ComposedVocabParallelEmbedding);

}  // namespace
}  // namespace fk
