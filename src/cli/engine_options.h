// Flags of the engine that all verbs that generate have, and what they print of guessed tokens.
#pragma once

#include <optional>
#include <string>

#include "cli/flags.h"
#include "cli/model_options.h"
#include "core/json_fwd.h"
#include "engine/batching_options.h"
#include "engine/engine.h"
#include "engine/speculation.h"

namespace fk {

void add_batch_invariant_flag(FlagSet& flags, bool& on);

// --speculative-config: how tokens are guessed, and the model that guesses them, where one does.
class SpeculativeFlag {
 public:
  void add(FlagSet& flags);
  bool given() const { return !text_.empty(); }
  // What was read, with the names of the flag's own fields.
  Json to_json() const;
  // None where the flag is not given. Throws UsageError that names the field.
  const SpeculativeOptions& read();
  // Finds the draft model. Throws Error or UsageError where it cannot guess for the target or cannot be loaded; reads
  // no weights. Where it is a head, the target will keep the hidden states that it guesses from.
  void find_draft(ModelSource& target, const ModelOptions& model, const BatchingOptions& batching, int64_t tp,
                  const CommonOptions& common);
  // Before the target, which is larger, so that a checkpoint that cannot be read is told soon. Returns milliseconds; 0
  // where no model guesses.
  double load_draft(const ModelOptions& model, const CommonOptions& common, ThreadPool& pool);
  // The draft model, once the target is loaded; nullptr: no model guesses.
  const Model* draft(const Model& target);

 private:
  std::string text_;
  SpeculativeConfig config_;
  std::optional<ModelSource> source_;
  std::string dtype_;  // of a head: the target's; empty: as the flags say
  std::optional<Model> draft_;
};

// By the names of vLLM's benchmark; null where nothing was guessed.
Json speculation_json(const EngineStats& stats);
// "62 % of 1204 guessed tokens were right"
std::string speculation_words(const EngineStats& stats);

}  // namespace fk
