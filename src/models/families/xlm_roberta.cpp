// XLM-RoBERTa and the embedding models made of it, such as BGE-M3: positions begin behind the id of the padding token.
#include "core/error.h"
#include "core/json.h"
#include "models/encoder_fields.h"
#include "models/family.h"
#include "ops/l4/xlm_roberta_model.h"

namespace fk {
namespace {

// Models with a head of their own have no pooling layer.
bool has_pooling_layer(const FamilyFields& fields) {
  const Json* list = fields.find("architectures");
  return list == nullptr || !list->is_array() || list->empty() || list->front() == XLMRobertaModel::kClass;
}

XLMRobertaModel::Init read_xlm_roberta(const FamilyFields& fields) {
  EncoderDimensions d = read_encoder(fields, {.hidden_size = 768,
                                              .intermediate_size = 3072,
                                              .num_hidden_layers = 12,
                                              .num_attention_heads = 12,
                                              .layer_norm_eps = 1e-12,
                                              .hidden_act = "gelu"});
  XLMRobertaModel::Init init{.vocab_size = fields.integer("vocab_size", 1, INT32_MAX).value_or(30522),
                             .hidden_size = d.hidden_size,
                             .intermediate_size = d.intermediate_size,
                             .num_hidden_layers = d.num_hidden_layers,
                             .num_attention_heads = d.num_attention_heads,
                             .layer_norm_eps = d.layer_norm_eps,
                             .hidden_act = d.hidden_act};
  init.max_position_embeddings = fields.integer("max_position_embeddings", 1, INT32_MAX).value_or(512);
  init.type_vocab_size = fields.integer("type_vocab_size", 1, INT32_MAX).value_or(2);
  init.pad_token_id = fields.integer("pad_token_id", 0, INT32_MAX).value_or(1);
  init.add_pooling_layer = has_pooling_layer(fields);
  init.dtype = read_dtype(fields);
  if (init.pad_token_id + 1 >= init.max_position_embeddings)
    throw Error("{}: positions begin behind pad_token_id {}, and max_position_embeddings {} leaves none.",
                fields.what(), init.pad_token_id, init.max_position_embeddings);
  for (const char* flag : {"is_decoder", "add_cross_attention"}) refuse_flag(fields, flag);
  if (auto kind = fields.string("position_embedding_type"); kind && *kind != "absolute")
    throw Error("{}: position_embedding_type '{}' is not supported; only absolute is.", fields.what(), *kind);
  return init;
}

}  // namespace

// Not in the unnamed namespace: RegisterFamily finds it by its argument.
static ModelFacts facts_of(const XLMRobertaModel::Init& init) {
  return {.vocab_size = init.vocab_size,
          .hidden_size = init.hidden_size,
          .num_hidden_layers = init.num_hidden_layers,
          .max_position_embeddings = init.max_position_embeddings - init.pad_token_id - 1,
          .padding_id = init.pad_token_id,
          .dtype = init.dtype};
}

namespace {

const RegisterFamily<XLMRobertaModel, read_xlm_roberta> kXlmRoberta(
    {.name = "xlm-roberta",
     .category = "encoder",
     .model_type = "xlm-roberta",
     .task = Task::kTextEncoder,
     .packed = {{"qkv_proj", {"query", "key", "value"}}},
     .refused = {{"XLMRobertaForCausalLM",
                  "describes an XLM-RoBERTa that generates text, which is not supported; XLMRobertaModel is."}},
     .parts_of = {{"XLMRobertaForMaskedLM", "xlm-roberta"}, {"XLMRobertaForSequenceClassification", "xlm-roberta"}},
     .part_prefix = "roberta.",
     .other_parts = {"lm_head.", "classifier."}});

}  // namespace
}  // namespace fk
