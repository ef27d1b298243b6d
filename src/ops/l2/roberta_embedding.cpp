#include "ops/l2/roberta_embedding.h"

#include "ops/l1/embedding.h"
#include "ops/l1/layer_norm.h"
#include "ops/l1/scale_add.h"
#include "ops/register.h"

namespace fk {

OutputSpecs RobertaEmbedding::outputs(const Init& init, Args given) {
  return {TensorSpec{{given[0]->size(0), init.hidden_size}, init.dtype}};
}

Inputs RobertaEmbedding::inputs(const Init& init, const Workload& w) {
  auto ids = [&](const Generator& generator) { return InputSpec{{{w.num_tokens()}, DType::kI64}, generator}; };
  return {ids(Generator::integers(0, init.vocab_size)), ids(Generator::metadata(Generator::Kind::kPositions)),
          ids(Generator::integers(0, init.type_vocab_size))};
}

Cost RobertaEmbedding::cost(const Init& init, const Workload& w) {
  auto T = static_cast<double>(w.num_tokens()), D = static_cast<double>(init.hidden_size);
  int64_t longest = 0;
  for (const Sequence& s : w.sequences) longest = std::max(longest, s.query_len);
  double rows = distinct_rows(static_cast<double>(init.vocab_size), T) +
                distinct_rows(static_cast<double>(init.type_vocab_size), T) + static_cast<double>(longest) + 2;
  auto size = static_cast<double>(dtype_size(init.dtype));
  return {.read_bytes = 3 * 8 * T + rows * D * size, .written_bytes = T * D * size, .vector_flops = 8 * T * D};
}

Tolerance RobertaEmbedding::tolerance(const Init& init, DType dtype) {
  return composed_tolerance(dtype, static_cast<double>(init.hidden_size));
}

std::vector<Case<RobertaEmbedding>> RobertaEmbedding::cases() {
  return {
      {"one token", {.vocab_size = 33, .max_position_embeddings = 20, .hidden_size = 16}, Workload::tokens(1)},
      {"odd, two types",
       {.vocab_size = 97, .type_vocab_size = 2, .max_position_embeddings = 41, .hidden_size = 77},
       Workload::batch({{5, 0}, {23, 0}})},
      {"large eps",
       {.vocab_size = 50, .max_position_embeddings = 64, .hidden_size = 48, .layer_norm_eps = 0.5},
       Workload::tokens(19)},
  };
}

namespace {

class ComposedRobertaEmbedding final : public RobertaEmbedding {
 public:
  ComposedRobertaEmbedding(const Init& c, Builder& builder)
      : RobertaEmbedding(c),
        word_embeddings(table(builder, "word_embeddings", c.vocab_size)),
        token_type_embeddings(table(builder, "token_type_embeddings", c.type_vocab_size)),
        position_embeddings(table(builder, "position_embeddings", c.max_position_embeddings)),
        add(builder.child<ScaleAdd>("add", {})),
        norm(builder.child<LayerNorm>(
            "LayerNorm", {.hidden_size = c.hidden_size, .eps = c.layer_norm_eps, .bias = true, .dtype = c.dtype})) {}

  void forward(Context& ctx, View input_ids, View positions, View token_type_ids, View out) override {
    View words_and_types = add(ctx, token_type_embeddings(ctx, token_type_ids), word_embeddings(ctx, input_ids));
    View sum = ctx.arena.make(out.spec());
    norm.into(ctx, position_embeddings(ctx, positions), words_and_types, out, sum);
  }

 private:
  Op<Embedding> table(Builder& builder, std::string_view name, int64_t rows) const {
    return builder.child<Embedding>(name,
                                    {.num_embeddings = rows, .embedding_dim = init_.hidden_size, .dtype = init_.dtype});
  }

  Op<Embedding> word_embeddings, token_type_embeddings, position_embeddings;
  Op<ScaleAdd> add;
  Op<LayerNorm> norm;
};

FK_COMPOSITION(RobertaEmbedding, ComposedRobertaEmbedding);

}  // namespace
}  // namespace fk
