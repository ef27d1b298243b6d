#include "cli/engine_options.h"

#include <fmt/format.h>

#include "core/json.h"
#include "engine/eagle_head.h"

namespace fk {

void add_batch_invariant_flag(FlagSet& flags, bool& on) {
  flags.flag("--batch-invariant", on,
             "Add in an order that does not depend on what else is in a step, so that tokens do not either: slower, on "
             "the CPU only");
}

void SpeculativeFlag::add(FlagSet& flags) {
  flags
      .option("--speculative-config", text_,
              "Guess the next tokens and compute them in one step. From what followed the last ones before: "
              "{\"method\": \"ngram\", \"num_speculative_tokens\": 4, \"prompt_lookup_max\": 4, "
              "\"prompt_lookup_min\": 2}; by a smaller model: {\"model\": \"MODEL\", "
              "\"num_speculative_tokens\": 4}; by an EAGLE-3 head: {\"method\": \"eagle3\", \"model\": \"HEAD\", "
              "\"num_speculative_tokens\": 3}")
      .type_name("JSON")
      .check([](const std::string& text) { return text.empty() ? "the text is empty; leave the flag out" : ""; });
}

const SpeculativeOptions& SpeculativeFlag::read() {
  if (given()) config_ = read_speculative_config(text_);
  return config_.options;
}

Json SpeculativeFlag::to_json() const {
  const SpeculativeOptions& o = config_.options;
  Json json = {{"method", speculative_method_name(o.method)}};
  if (!config_.model.empty()) json["model"] = config_.model;
  json["num_speculative_tokens"] = o.num_speculative_tokens;
  if (!o.has_draft_model()) {
    json["prompt_lookup_max"] = o.prompt_lookup_max;
    json["prompt_lookup_min"] = o.prompt_lookup_min;
  }
  return json;
}

void SpeculativeFlag::find_draft(ModelSource& target, const ModelOptions& model, const BatchingOptions& batching,
                                 int64_t tp, const CommonOptions& common) {
  if (!config_.options.has_draft_model()) return;
  if (tp > 1)
    throw UsageError(
        "--speculative-config: a draft model guesses on one rank only; leave --tp out, or take the method \"ngram\".");
  ModelSource source = resolve_model(config_.model);
  check_draft_allows(source, target, batching);
  check_loadable(source, load_options(model, source, common));
  if (config_.options.has_head()) {
    target.config.set_aux_hidden_states(wanted_hidden_states(source, target));
    dtype_ = dtype_name(load_options(model, target, common).dtype);
  }
  source_ = std::move(source);
}

double SpeculativeFlag::load_draft(const ModelOptions& model, const CommonOptions& common, ThreadPool& pool) {
  if (!source_) return 0;
  ModelOptions own = model;
  own.quantization.clear();  // of --model
  if (!dtype_.empty()) own.dtype = dtype_;
  TimedModel loaded = load_timed(own, *source_, common, pool);
  draft_ = std::move(loaded.model);
  return loaded.load_ms;
}

const Model* SpeculativeFlag::draft(const Model& target) {
  if (!draft_) return nullptr;
  share_embedding(*draft_, target);
  return &*draft_;
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
