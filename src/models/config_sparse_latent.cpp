#include "models/config_sparse_latent.h"

#include <algorithm>

#include "core/error.h"
#include "core/json.h"
#include "models/in_quotes.h"

namespace fk {
namespace {

// A list with one word for each layer, of which this model knows one sort. `other`: a second name of it.
void check_layers(const FamilyFields& fields, std::string_view key, std::string_view known,
                  std::string_view other = {}) {
  const Json* list = fields.find(key);
  if (list == nullptr) return;
  if (!list->is_array()) throw Error("{}: {} must be a list.", fields.what(), key);
  for (const Json& type : *list)
    if (type != known && (other.empty() || type != other))
      throw Error("{}: {} holds {}; only {} is supported.", fields.what(), key, in_quotes(type.dump()), known);
}

// "dense" and "sparse", the dense ones first, as first_k_dense_replace says it with one number.
void read_mlp_layers(const FamilyFields& fields, int64_t layers, int64_t& first_k_dense_replace) {
  const Json* list = fields.find("mlp_layer_types");
  if (list == nullptr) return;
  auto dense = list->is_array() ? static_cast<int64_t>(std::count(list->begin(), list->end(), Json("dense"))) : 0;
  bool ordered = list->is_array() && static_cast<int64_t>(list->size()) == layers;
  for (int64_t i = 0; ordered && i < layers; ++i)
    ordered = (*list)[static_cast<size_t>(i)] == (i < dense ? "dense" : "sparse");
  if (!ordered)
    throw Error("{}: mlp_layer_types must list {} layers, all dense ones before the sparse ones.", fields.what(),
                layers);
  first_k_dense_replace = dense;
}

}  // namespace

void read_sparse_latent(const FamilyFields& fields, const SparseLatentDefaults& defaults, SparseLatentModelInit& init) {
  read_latent_decoder(fields, defaults.decoder, defaults.latent, init, init);
  if (init.q_lora_rank == 0)
    throw Error("{}: {} needs a q_lora_rank, which its indexer reads.", fields.what(), fields.architecture);
  refuse_flag(fields, "mlp_bias");
  // transformers 5.22 writes the second name and reads both.
  check_layers(fields, "layer_types", "deepseek_sparse_attention", "indexed_attention");
  check_layers(fields, "indexer_types", "full");
  if (fields.has("index_topk_pattern") || fields.integer("index_topk_freq", 1, INT32_MAX).value_or(1) != 1)
    throw Error("{}: layers that share the keys chosen by an earlier one are not supported.", fields.what());
  read_grouped_experts(fields, defaults.experts, init);
  read_mlp_layers(fields, init.num_hidden_layers, init.first_k_dense_replace);
  init.index_n_heads = fields.integer("index_n_heads", 1, 1 << 12).value_or(defaults.index_n_heads);
  init.index_head_dim = fields.integer("index_head_dim", 1, 1 << 12).value_or(defaults.index_head_dim);
  init.index_topk = fields.integer("index_topk", 1, 1 << 20).value_or(defaults.index_topk);
  if (init.index_head_dim < init.qk_rope_head_dim)
    throw Error("{}: index_head_dim {} must hold the {} elements that are rotated.", fields.what(), init.index_head_dim,
                init.qk_rope_head_dim);
}

}  // namespace fk
