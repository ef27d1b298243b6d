#include "engine/model.h"

#include <optional>

#include "core/error.h"
#include "models/checkpoint_names.h"
#include "models/config.h"
#include "models/convert.h"
#include "models/family.h"
#include "models/quantization_config.h"
#include "models/tied_head.h"
#include "ops/registry.h"

namespace fk {

namespace {
constexpr std::string_view kHeadEmbedding = "embed_tokens.weight";  // of a draft head

// How the names of tensors begin that belong to layers after the last one.
std::vector<std::string> layers_after(int64_t last, int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = last; i < last + count; ++i) names.push_back("model.layers." + std::to_string(i) + ".");
  return names;
}
}  // namespace

std::unique_ptr<Node> build_model(const ModelConfig& config, const BuildOptions& options) {
  return Registry::instance().at(config.family->op).build(config.init, options);
}

View Model::weight(const std::string& path) const { return weights.get(loaded_name(path, config)); }

void check_loadable(const ModelSource& source, const LoadOptions& options) {
  if (!dtype_is_weight(options.dtype))
    throw UsageError("Models run in bf16, f16 or f32, not in {}.", dtype_name(options.dtype));
  if (options.format == LoadFormat::kAuto && !source.has_weights())
    throw Error(
        "'{}' is a name of the catalog and has no weights here; add --load-format dummy, or give a directory with a "
        "checkpoint.",
        source.name);
  if (!options.quantization.empty() && options.format != LoadFormat::kDummy)
    throw UsageError(
        "--quantization chooses the format of dummy weights: add --load-format dummy, or leave it out; a checkpoint "
        "says itself how it is quantised.");
}

void check_divisible(const ModelSource& source, int64_t ranks) {
  if (ranks == 1) return;
  source.config.require_task(Task::kCausalLM, source.name, "--tp");
  // Below this size a part of the vocabulary could not be told from a shared head.
  constexpr int64_t kLeastVocabulary = 64;
  if (source.config.facts.vocab_size < kLeastVocabulary)
    throw Error("{} has a vocabulary of {} tokens, too few to be divided over ranks; use --tp 1.", source.name,
                source.config.facts.vocab_size);
  ModelConfig config = source.config, whole = source.config;
  config.set_ranks(ranks, true, ranks - 1);
  whole.set_ranks(1, true);
  try {
    std::unique_ptr<Node> part = build_model(config, {}), all = build_model(whole, {});
    rank_slices(collect_params(*all), collect_params(*part), ranks - 1, ranks);
  } catch (const Error& e) {
    throw Error("{} cannot be divided over {} ranks: {}", source.name, ranks, e.what());
  }
}

void share_embedding(Model& head, const Model& target) {
  if (!head.lacks_embedding) return;
  const View own = target.weight(std::string(kEmbeddingWeight));
  const TensorSpec wanted{{head.config.facts.vocab_size, head.config.facts.hidden_size}, head.config.facts.dtype};
  if (own.spec() != wanted)
    throw Error("The checkpoint of {} has no embedding, and that of {} does not fit: it is {}, and not {}.", head.name,
                target.name, own.spec().shape.str() + " of " + std::string(dtype_name(own.dtype())),
                wanted.shape.str() + " of " + std::string(dtype_name(wanted.dtype)));
  head.root->bind([&](const std::string& name) { return name == kHeadEmbedding ? own : head.weight(name); });
  head.lacks_embedding = false;
}

Model load_model(const ModelSource& source, const LoadOptions& options, ThreadPool& pool) {
  check_loadable(source, options);
  Model model;
  model.name = source.name;
  model.device = options.device;
  model.config = source.config;
  model.config.set_dtype(options.dtype);
  if (!options.quantization.empty())
    model.config.set_weight_format(quantization_of_name(options.quantization, *model.config.family));
  std::optional<Checkpoint> checkpoint;
  if (options.format == LoadFormat::kAuto) {
    checkpoint = source.gguf.empty() ? Checkpoint::open(source.directory) : Checkpoint::open_gguf(source.gguf);
    untie_head_that_differs(model.config, *checkpoint);
  }
  const BuildOptions build{.device = options.device};
  model.root = build_model(model.config, build);
  std::vector<ParamSpec> params = checkpoint_params(*model.root, model.config);
  RankSlices slices;
  if (options.communicator != nullptr && options.communicator->size() > 1) {
    const int64_t rank = options.communicator->rank(), ranks = options.communicator->size();
    model.communicator = options.communicator;
    std::unique_ptr<Node> whole = std::move(model.root);
    model.config.set_ranks(ranks, true, rank);
    model.root = build_model(model.config, build);
    slices = rank_slices(collect_params(*whole), collect_params(*model.root), rank, ranks);
  }
  if (!checkpoint) {
    model.weights =
        Weights::dummy(params, options.seed, model.config.family->norm_offset, pool, options.device, slices);
  } else {
    find_tied_embedding(params, model.config, *checkpoint);
    find_part(params, model.config, *checkpoint);
    find_experts(params, *checkpoint);
    model.lacks_embedding =
        model.config.facts.task == Task::kDraftHead && !checkpoint->find(std::string(kHeadEmbedding));
    if (model.lacks_embedding)
      std::erase_if(params, [](const ParamSpec& param) { return param.name == kHeadEmbedding; });
    const StoredExtras extras = source.gguf.empty() ? read_stored_extras(source.directory) : StoredExtras();
    const std::vector<std::string> predicting =
        layers_after(model.config.facts.num_hidden_layers, extras.predicting_layers);
    std::vector<std::string_view> unused = model.config.family->other_parts;
    unused.insert(unused.end(), predicting.begin(), predicting.end());
    model.weights = Weights::load(params, std::move(*checkpoint), pool, options.device, unused, slices, extras.formats);
  }
  if (!model.lacks_embedding) model.root->bind([&](const std::string& name) { return model.weight(name); });
  return model;
}

}  // namespace fk
