#include "cli/engine_options.h"

#include <fmt/format.h>

#include "core/json.h"

namespace fk {

void add_batch_invariant_flag(FlagSet& flags, bool& on) {
  flags.flag("--batch-invariant", on,
             "Add in an order that does not depend on what else is in a step, so that tokens do not either: slower, on "
             "the CPU only");
}

void add_speculative_option(FlagSet& flags, std::string& config) {
  flags
      .option("--speculative-config", config,
              "Guess the next tokens from what followed the last ones before, and compute them in one step: "
              "{\"method\": \"ngram\", \"num_speculative_tokens\": 4, \"prompt_lookup_max\": 4, "
              "\"prompt_lookup_min\": 2}")
      .type_name("JSON");
}

SpeculativeOptions speculative_options(const std::string& config) {
  return config.empty() ? SpeculativeOptions{} : read_speculative_config(config);
}

Json speculation_json(const EngineStats& s) {
  if (s.drafts == 0) return nullptr;
  const auto drafts = static_cast<double>(s.drafts), accepted = static_cast<double>(s.accepted_tokens);
  return {{"spec_decode_num_drafts", s.drafts},
          {"spec_decode_draft_tokens", s.draft_tokens},
          {"spec_decode_accepted_tokens", s.accepted_tokens},
          {"spec_decode_acceptance_rate", 100 * accepted / static_cast<double>(s.draft_tokens)},
          {"spec_decode_acceptance_length", 1 + accepted / drafts}};
}

std::string speculation_words(const EngineStats& s) {
  if (s.drafts == 0) return "no token was guessed";
  return fmt::format("{:.0f} % of {} guessed tokens were right",
                     100 * static_cast<double>(s.accepted_tokens) / static_cast<double>(s.draft_tokens),
                     s.draft_tokens);
}

}  // namespace fk
