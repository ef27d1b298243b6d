// Flags of the engine that all verbs that generate have, and what they print of guessed tokens.
#pragma once

#include <string>

#include "cli/flags.h"
#include "core/json_fwd.h"
#include "engine/engine.h"
#include "engine/speculation.h"

namespace fk {

void add_batch_invariant_flag(FlagSet& flags, bool& on);
void add_speculative_option(FlagSet& flags, std::string& config);
// None where the flag is not given.
SpeculativeOptions speculative_options(const std::string& config);

// By the names of vLLM's benchmark; null where nothing was guessed.
Json speculation_json(const EngineStats& stats);
// "62 % of 1204 guessed tokens were right"
std::string speculation_words(const EngineStats& stats);

}  // namespace fk
