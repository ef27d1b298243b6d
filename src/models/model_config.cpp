#include "models/model_config.h"

#include "core/error.h"
#include "models/family.h"

namespace fk {
namespace {

void change(ModelConfig& config, std::string_view name, FieldValue value) {
  if (!set_field(config.init, name, std::move(value)))
    throw Error("{} has no constructor argument '{}', so it cannot be changed.", config.architecture(), name);
}

}  // namespace

const TaskInfo& task_info(Task task) {
  static constexpr TaskInfo kTasks[] = {
      {"causal-lm", "a language model", "generate"},
      {"text-encoder", "a text encoder", "encode"},
      {"image-encoder", "an image encoder", "encode"},
      {"diffusion-lm", "a diffusion language model", "denoise"},
      {"draft-head", "a head that guesses tokens of another model", "generate --speculative-config"}};
  return kTasks[static_cast<size_t>(task)];
}

void ModelConfig::require_task(Task task, std::string_view model, std::string_view verb) const {
  if (facts.task == task) return;
  throw Error("{} is {}, and {} needs {}; run it with fastkernels {}.", model, task_info(facts.task).words, verb,
              task_info(task).words, task_info(facts.task).verb);
}

std::string_view ModelConfig::architecture() const { return family != nullptr ? family->architecture : ""; }

void ModelConfig::set_dtype(DType dtype) {
  change(*this, "dtype", std::string(dtype_name(dtype)));
  facts.dtype = dtype;
}

void ModelConfig::set_tied_head(bool tied) {
  change(*this, "tie_word_embeddings", tied);
  facts.tied_head = tied;
}

void ModelConfig::set_weight_format(const std::string& formats) { change(*this, "weight_format", formats); }

void ModelConfig::set_aux_hidden_states(const std::vector<int64_t>& layers) {
  change(*this, "aux_hidden_state_layers", layers);
}

void ModelConfig::set_ranks(int64_t tp_size, bool reduce, int64_t tp_rank) {
  if (tp_size == 1 && find_field(init, "tp_size") == nullptr) return;
  change(*this, "tp_size", tp_size);
  change(*this, "tp_rank", tp_rank);
  change(*this, "tp_reduce", reduce);
  facts.tp_size = tp_size;
}

}  // namespace fk
