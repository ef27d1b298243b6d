#include "ops/l4/xlm_roberta_model.h"

#include "ops/l2/bert_pooler.h"
#include "ops/l2/roberta_embedding.h"
#include "ops/register.h"

namespace fk {
namespace {

RobertaEmbedding::Init embeddings_of(const XLMRobertaModel::Init& init) {
  return {.vocab_size = init.vocab_size,
          .type_vocab_size = init.type_vocab_size,
          .max_position_embeddings = init.max_position_embeddings,
          .hidden_size = init.hidden_size,
          .layer_norm_eps = init.layer_norm_eps,
          .dtype = init.dtype};
}

BertPooler::Init pooler_of(const XLMRobertaModel::Init& init) {
  return {.hidden_size = init.hidden_size, .dtype = init.dtype};
}

}  // namespace

BertLayer::Init XLMRobertaModel::layer(const Init& init) {
  return {.attention = {.hidden_size = init.hidden_size,
                        .num_attention_heads = init.num_attention_heads,
                        .layer_norm_eps = init.layer_norm_eps,
                        .dtype = init.dtype},
          .intermediate_size = init.intermediate_size,
          .hidden_act = init.hidden_act};
}

OutputSpecs XLMRobertaModel::outputs(const Init& init, Args given) {
  return encoder_outputs(given[0]->size(0), given[3]->size(0) - 1, init.hidden_size, init.add_pooling_layer,
                         init.dtype);
}

Inputs XLMRobertaModel::inputs(const Init& init, const Workload& w) {
  Inputs inputs = RobertaEmbedding::inputs(embeddings_of(init), w);
  inputs.push_back(sequence_starts(w));
  return inputs;
}

Cost XLMRobertaModel::cost(const Init& init, const Workload& w) {
  Workload typed = w;
  typed.dtype = init.dtype;
  double stream = static_cast<double>(w.num_tokens() * init.hidden_size) * static_cast<double>(dtype_size(init.dtype));
  Cost cost = RobertaEmbedding::cost(embeddings_of(init), typed);  // its output is as large as the model's
  for (int64_t i = 0; i < init.num_hidden_layers; ++i)
    add_inner_layer(cost, BertLayer::cost(layer(init), typed), stream);
  if (init.add_pooling_layer) {
    Cost pooler = BertPooler::cost(pooler_of(init), typed);
    double first_tokens =
        static_cast<double>(w.num_sequences() * init.hidden_size) * static_cast<double>(dtype_size(init.dtype));
    cost.read_bytes += pooler.read_bytes - first_tokens;
    cost.written_bytes += pooler.written_bytes;
    cost.matrix_flops += pooler.matrix_flops;
    cost.vector_flops += pooler.vector_flops;
  }
  return cost;
}

Tolerance XLMRobertaModel::tolerance(const Init& init, DType dtype) {
  return encoder_tolerance(init.intermediate_size, init.num_hidden_layers, dtype);
}

std::vector<Case<XLMRobertaModel>> XLMRobertaModel::cases() {
  Init c{.vocab_size = 131,
         .hidden_size = 60,
         .intermediate_size = 133,
         .num_hidden_layers = 2,
         .num_attention_heads = 5,
         .max_position_embeddings = 90};
  std::vector<Case<XLMRobertaModel>> cases;
  for (const Workload& w : encoder_workloads())
    cases.push_back({std::to_string(w.num_sequences()) + " sequences", c, w});
  c.add_pooling_layer = false;
  cases.push_back({"without a pooling layer", c, Workload::batch({{7, 0}, {12, 0}})});
  return cases;
}

namespace {

class ComposedXLMRobertaModel final : public XLMRobertaModel {
 public:
  ComposedXLMRobertaModel(const Init& c, Builder& builder)
      : XLMRobertaModel(c), embeddings(builder.child<RobertaEmbedding>("embeddings", embeddings_of(c))) {
    for (int64_t i = 0; i < c.num_hidden_layers; ++i)
      layers.push_back(builder.child<BertLayer>("encoder.layer." + std::to_string(i), layer(c)));
    if (c.add_pooling_layer) pooler.emplace(builder.child<BertPooler>("pooler", pooler_of(c)));
  }

  void forward(Context& ctx, View input_ids, View positions, View token_type_ids, View cu_seqlens,
               View last_hidden_state, OptView pooler_output) override {
    View hidden = embeddings(ctx, input_ids, positions, token_type_ids);
    // Layers read one buffer and write the other; the last one writes the output.
    View spare = ctx.arena.make(hidden.spec());
    for (size_t i = 0; i < layers.size(); ++i) {
      bool last = i + 1 == layers.size();
      layers[i].into(ctx, hidden, cu_seqlens, last ? last_hidden_state : spare);
      std::swap(hidden, spare);
    }
    if (pooler) pooler->into(ctx, last_hidden_state, cu_seqlens, *pooler_output);
  }

 private:
  Op<RobertaEmbedding> embeddings;
  std::vector<Op<BertLayer>> layers;
  std::optional<Op<BertPooler>> pooler;
};

FK_COMPOSITION(XLMRobertaModel, ComposedXLMRobertaModel);

}  // namespace
}  // namespace fk
