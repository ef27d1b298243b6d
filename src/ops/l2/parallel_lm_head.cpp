#include "ops/l2/parallel_lm_head.h"

#include "ops/register.h"

namespace fk {

std::vector<Case<ParallelLMHead>> ParallelLMHead::cases() {
  return {
      {"one row", {.num_embeddings = 331, .embedding_dim = 72}, Workload::tokens(1)},
      {"rows, bias", {.num_embeddings = 257, .embedding_dim = 48, .bias = true}, Workload::tokens(6)},
      {"a quarter", {.num_embeddings = 257, .embedding_dim = 48, .tp_size = 4}, Workload::tokens(3)},
  };
}

namespace {

class ComposedParallelLMHead final : public ParallelLMHead {
 public:
  ComposedParallelLMHead(const Init& init, Builder& builder)
      : ParallelLMHead(init), linear_(builder, product(init), init.weight_format) {}

  void forward(Context& ctx, View hidden_states, View logits) override { linear_.into(ctx, hidden_states, logits); }

 private:
  AnyLinear linear_;
};

FK_COMPOSITION(ParallelLMHead, ComposedParallelLMHead);

}  // namespace
}  // namespace fk
