// denoise: continues prompts with a diffusion language model.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "cli/candidate_options.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/error.h"
#include "engine/denoiser.h"
#include "measure/timer.h"
#include "models/generation_defaults.h"
#include "models/tokenizer.h"

namespace fk {
namespace {

class Denoise final : public Verb {
 public:
  Denoise()
      : Verb("denoise", "Continue prompts with a diffusion language model",
             {"fastkernels denoise --model ./LLaDA-8B-Instruct --prompt 'The capital of France is' --max-tokens 64",
              "fastkernels denoise --model tiny-llada --load-format dummy --prompt-token-ids 5,17,99 --max-tokens 12 "
              "--block-length 4 --steps 6 --json",
              "fastkernels denoise --model ./LLaDA-8B-Instruct --prompt 'Once' --temperature 0.5 --remasking random"}) {
  }

  void add_flags(FlagSet& flags) override {
    add_model_options(flags, model_);
    add_candidate_options(flags, candidates_);
    Flag& text = flags.option("--prompt", prompts_, "Text to continue; several run together as one batch");
    flags.option("--prompt-token-ids", prompt_ids_, "Instead: token ids, separated by commas; several likewise")
        .type_name("ID,ID,...")
        .excludes(text);
    flags.option("--max-tokens", options_.gen_length, "Tokens after each prompt, all of which begin as masks")
        .range(1, int64_t{1} << 24)
        .show_default();
    flags.option("--block-length", options_.block_length, "Tokens that are filled before the next ones are begun")
        .range(1, int64_t{1} << 24)
        .show_default();
    steps_flag_ = &flags
                       .option("--steps", options_.steps,
                               "Passes of the model for all tokens together, at least one for each block [a pass for "
                               "each token]")
                       .range(1, int64_t{1} << 24);
    flags.option("--temperature", options_.temperature, "0 picks the most likely token").show_default();
    flags.option("--remasking", remasking_, "Which tokens stay after a pass: those that the model is surest of, or any")
        .one_of({"low_confidence", "random"})
        .show_default();
    flags.flag("--ignore-eos", ignore_eos_, "Print what follows the end of the text, too");
  }

  void run(const CommonOptions& common) override {
    if (prompts_.empty() && prompt_ids_.empty()) throw UsageError("Give a --prompt or --prompt-token-ids.");
    for (const std::string& prompt : prompts_)
      if (prompt.empty()) throw UsageError("A prompt is empty; give it at least one character.");
    if (!(options_.temperature >= 0 && options_.temperature <= 100))
      throw UsageError("--temperature must be from 0 to 100.");
    options_.remasking = remasking_from_name(remasking_);
    options_.seed = common.seed;
    if (!steps_flag_->given()) options_.steps = options_.gen_length;
    ModelSource source = resolve_model(model_.model);
    source.config.require_task(Task::kDiffusionLM, source.name, "denoise");
    check_loadable(source, load_options(model_, source, common));
    std::optional<Tokenizer> tokenizer;
    if (!source.tokenizer.empty()) tokenizer = Tokenizer::from_file(source.tokenizer);
    for (const std::string& prompt : prompts_) ids_.push_back(encode_prompt(prompt, tokenizer, source, model_));
    for (const std::string& ids : prompt_ids_) ids_.push_back(parse_token_ids(ids));
    check_lengths(source);
    if (!source.directory.empty() && !ignore_eos_) end_tokens_ = read_generation_defaults(source.directory).eos;
    judged_ = activate_candidates(candidates_, common);
    ThreadPool pool(common.threads);
    TimedModel loaded = load_timed(model_, source, common, pool);
    uses_ = candidate_uses(*loaded.model.root);
    if (std::string line = describe_uses(uses_); common.text() && !common.quiet && !line.empty())
      std::fputs(("[" + line + "]\n").c_str(), stderr);
    Denoiser denoiser(loaded.model, pool);
    Stopwatch watch;
    results_ = denoiser.generate(ids_, options_);
    const double elapsed_s = watch.elapsed_s();
    for (auto& tokens : results_) cut(tokens);
    report(common, loaded, tokenizer, denoiser.passes(), elapsed_s);
  }

 private:
  void check_lengths(const ModelSource& source) const {
    const int64_t longest = source.config.facts.max_position_embeddings;
    for (const auto& ids : ids_)
      if (std::ssize(ids) + options_.gen_length > longest)
        throw Error(
            "{} has a context of {} tokens, but the prompt has {} and --max-tokens asks for {} more; shorten one of "
            "them.",
            source.name, longest, ids.size(), options_.gen_length);
  }

  // A text ends before its first end token; what follows it is filling.
  void cut(std::vector<int64_t>& tokens) const {
    tokens.erase(std::find_first_of(tokens.begin(), tokens.end(), end_tokens_.begin(), end_tokens_.end()),
                 tokens.end());
  }

  void report(const CommonOptions& common, const TimedModel& loaded, const std::optional<Tokenizer>& tokenizer,
              int64_t passes, double elapsed_s) const {
    auto text_of = [&](size_t i) {
      std::vector<int32_t> ids(results_[i].begin(), results_[i].end());
      return tokenizer ? tokenizer->decode(ids, true) : std::string();
    };
    if (common.json) {
      Json all = Json::array();
      for (size_t i = 0; i < results_.size(); ++i)
        all.push_back({{"prompt_token_ids", ids_[i]}, {"token_ids", results_[i]}, {"text", text_of(i)}});
      Json json = {{"model", loaded.model.name},
                   {"dtype", dtype_name(loaded.model.config.facts.dtype)},
                   {"results", std::move(all)},
                   {"passes", passes},
                   {"denoise_ms", elapsed_s * 1e3},
                   {"load_ms", loaded.load_ms},
                   {"candidates", to_json(uses_, judged_)},
                   {"cxxflags", candidates_.cxxflags},
                   {"dispatches", to_json(collect_dispatches(*loaded.model.root))}};
      return print_out(dump_json(json) + "\n");
    }
    if (common.csv || !tokenizer) {
      Table table({{"result", "result"}, {"step", "step"}, {"token_id", "token"}});
      for (size_t r = 0; r < results_.size(); ++r)
        for (size_t i = 0; i < results_[r].size(); ++i) table.add_row({r + 1, i, results_[r][i]});
      table.print(common);
    } else {
      for (size_t i = 0; i < results_.size(); ++i) {
        if (results_.size() > 1) print_out(fmt::format("== prompt {} of {} ==\n", i + 1, results_.size()));
        print_out(text_of(i) + "\n");
      }
    }
    if (common.quiet || common.csv) return;
    size_t tokens = 0;
    for (const auto& result : results_) tokens += result.size();
    std::fputs(fmt::format("[{} tokens in {} passes, {:.2f} s, {:.1f} tok/s; loaded in {:.1f} s]\n", tokens, passes,
                           elapsed_s, static_cast<double>(tokens) / elapsed_s, loaded.load_ms * 1e-3)
                   .c_str(),
               stderr);
  }

  ModelOptions model_;
  CandidateOptions candidates_;
  DenoiseOptions options_;
  const Flag* steps_flag_ = nullptr;
  std::string remasking_ = "low_confidence";
  std::vector<std::string> prompts_, prompt_ids_;
  bool ignore_eos_ = false;
  std::vector<int64_t> end_tokens_;
  std::vector<std::vector<int64_t>> ids_, results_;
  std::vector<CandidateUse> uses_;
  std::vector<CandidateRecord> judged_;
};

Denoise denoise_verb;

}  // namespace
}  // namespace fk
