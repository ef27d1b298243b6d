// ModelConfig: one model of a family, as its config.json describes it.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/dtype.h"
#include "ops/fields.h"

namespace fk {

struct Family;

// What a model is for, which decides how it is run. Nothing but the task is asked by what runs models.
enum class Task : uint8_t {
  kCausalLM,  // tokens in, logits of the next token out
};
std::string_view task_name(Task task);

// What users of a model need to know of it, whatever its family.
struct ModelFacts {
  Task task = Task::kCausalLM;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t max_position_embeddings = 0;  // the longest context
  bool tied_head = false;               // the output head is the embedding's matrix
  int64_t tp_size = 1;                  // ranks the model is divided over
  DType dtype = DType::kBF16;           // of weights and activations

  friend bool operator==(const ModelFacts&, const ModelFacts&) = default;
};

struct ModelConfig {
  const Family* family = nullptr;
  Fields init;  // constructor arguments of the family's L4 operator
  ModelFacts facts;

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;

  std::string_view architecture() const;  // "LlamaForCausalLM"

  // These change the facts and the constructor arguments together. Each throws Error where the family's operator lacks
  // the argument: dtype, tie_word_embeddings, tp_size and tp_reduce.
  void set_dtype(DType dtype);
  void set_tied_head(bool tied);
  void set_ranks(int64_t tp_size, bool reduce);  // reduce: add up what the ranks computed
};

}  // namespace fk
