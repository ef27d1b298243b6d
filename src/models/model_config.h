// ModelConfig: one model of a family, as its config.json describes it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "ops/fields.h"

namespace fk {

struct Family;

// What a model is for, which decides how it is run. Nothing but the task is asked by what runs models.
enum class Task : uint8_t {
  kCausalLM,      // tokens in, logits of the next token out
  kTextEncoder,   // tokens in, a vector for each and one for the whole text out
  kImageEncoder,  // pixels in, a vector for each patch and one for the whole image out
  kDiffusionLM,   // a text with masked tokens in, logits of what they may be out
  kDraftHead,     // tokens and hidden states of another model in, logits of its next token out
};
struct TaskInfo {
  std::string_view name;   // "causal-lm"
  std::string_view words;  // "a language model": after "{model} is"
  std::string_view verb;   // "generate": the verb that runs such a model once
};
const TaskInfo& task_info(Task task);
inline bool is_encoder(Task task) { return task == Task::kTextEncoder || task == Task::kImageEncoder; }
// Nothing is kept from one pass to the next, so that all passes are of one kind; engine/encoder.h runs them.
inline bool is_stateless(Task task) { return task != Task::kCausalLM && task != Task::kDraftHead; }

// What users of a model need to know of it, whatever its family.
struct ModelFacts {
  Task task = Task::kCausalLM;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t max_position_embeddings = 0;  // the longest context
  int64_t padding_id = -1;              // positions begin behind it, and a token of this id has it as its position
  int64_t mask_id = -1;                 // the token that a diffusion language model replaces
  int64_t num_channels = 0;             // of an image; 0: the model takes none
  int64_t image_size = 0;               // height and width of an image, in pixels
  int64_t patch_size = 0;               // likewise of a patch
  bool tied_head = false;               // the output head is the embedding's matrix
  int64_t tp_size = 1;                  // ranks the model is divided over
  DType dtype = DType::kBF16;           // of weights and activations

  // Vectors that an image becomes.
  int64_t num_patches() const { return patch_size == 0 ? 0 : (image_size / patch_size) * (image_size / patch_size); }
  friend bool operator==(const ModelFacts&, const ModelFacts&) = default;
};

struct ModelConfig {
  const Family* family = nullptr;
  Fields init;  // constructor arguments of the family's L4 operator
  ModelFacts facts;

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;

  std::string_view architecture() const;  // "LlamaForCausalLM"

  // Throws Error where the model has another task, with the verb that runs it; `verb` is the one that cannot.
  void require_task(Task task, std::string_view model, std::string_view verb) const;

  // These change the facts and the constructor arguments together. Each throws Error where the family's operator lacks
  // the argument: dtype, tie_word_embeddings, weight_format, tp_size, tp_rank and tp_reduce, which one rank does not
  // need.
  void set_dtype(DType dtype);
  void set_tied_head(bool tied);
  // reduce: add up what the ranks computed, and collect the logits.
  void set_ranks(int64_t tp_size, bool reduce, int64_t tp_rank = 0);
  void set_weight_format(const std::string& formats);  // as in ops/formats/format_map.h
  // Hidden states that are kept for a head that guesses, as in ops/l4/decoder_model_init.h.
  void set_aux_hidden_states(const std::vector<int64_t>& layers);
};

}  // namespace fk
