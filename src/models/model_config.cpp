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

std::string_view task_name(Task task) {
  switch (task) {
    case Task::kCausalLM:
      return "causal-lm";
  }
  return "unknown";
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

void ModelConfig::set_ranks(int64_t tp_size, bool reduce) {
  change(*this, "tp_size", tp_size);
  change(*this, "tp_reduce", reduce);
  facts.tp_size = tp_size;
}

}  // namespace fk
