// generate: continues a prompt and prints the text as it comes.
#include <fmt/format.h>

#include <cstdio>
#include <optional>

#include "cli/candidate_options.h"
#include "cli/chat_options.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/ranks.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/error.h"
#include "core/printable.h"
#include "engine/generate.h"
#include "measure/timer.h"
#include "models/generation_defaults.h"
#include "models/gguf_model.h"
#include "models/gguf_tokenizer.h"
#include "models/tokenizer.h"

namespace fk {
namespace {

class Generate final : public Verb {
 public:
  Generate()
      : Verb(
            "generate", "Continue a prompt",
            {"fastkernels generate --model ./my-checkpoint --prompt 'The capital of France is' --max-tokens 32",
             "fastkernels generate --model tiny-llama --load-format dummy --prompt 'Hello' --max-tokens 8",
             "fastkernels generate --model ./my-checkpoint --prompt 'Once' --temperature 0.8 --top-p 0.95 --seed 7",
             "fastkernels generate --model ./my-checkpoint --chat --system 'Be brief.' --prompt 'Why is the sky blue?'",
             "fastkernels generate --model tiny-qwen3 --load-format dummy --prompt-token-ids 5,17,99 --json",
             "fastkernels generate --model tiny-llama --load-format dummy --prompt-token-ids 5,17,99 --tp 2   # on two "
             "ranks"}) {}

  void add_flags(FlagSet& flags) override {
    add_model_options(flags, model_);
    add_candidate_options(flags, candidates_);
    add_rank_options(flags, tp_);
    Flag& text = flags.option("--prompt", prompt_, "Text to continue");
    prompt_flag_ = &text;
    flags.option("--prompt-token-ids", prompt_ids_, "Token ids to continue, separated by commas")
        .type_name("ID,ID,...")
        .excludes(text);
    add_chat_options(flags, chat_);
    flags.option("--max-tokens", max_tokens_, "Tokens to generate at most").range(1, int64_t{1} << 24).show_default();
    flags.option("--temperature", sampling_.temperature, "0 picks the most likely token").show_default();
    flags.option("--top-k", sampling_.top_k, "Draw from the k most likely; 0: all")
        .range(0, int64_t{1} << 24)
        .show_default();
    flags.option("--top-p", sampling_.top_p, "Sample from the smallest set of tokens with this total probability")
        .show_default();
    flags.option("--min-p", sampling_.min_p, "Drop tokens less likely than this share of the likeliest").show_default();
    flags.flag("--ignore-eos", ignore_eos_, "Go on after the end of the text");
  }

  void run(const CommonOptions& given) override {
    CommonOptions common = given;
    sampling_.seed = common.seed;
    check_sampling_params(sampling_);
    if (prompt_flag_->given() && prompt_.empty())
      throw UsageError("The prompt is empty; give it at least one character.");
    check_chat_options(chat_, !prompt_.empty(), !prompt_ids_.empty());
    if (prompt_.empty() && prompt_ids_.empty() && !chat_.wanted())
      throw UsageError("Give a --prompt or --prompt-token-ids.");
    ModelSource source = resolve_model(model_.model);
    source.config.require_task(Task::kCausalLM, source.name, "generate");
    check_loadable(source, load_options(model_, source, common));
    std::optional<Tokenizer> tokenizer = find_tokenizer(source, common);
    if (chat_.wanted()) prompt_ = chat_prompt(chat_, prompt_, source);
    GenerateRequest request{
        .prompt = encode(tokenizer, source), .max_tokens = max_tokens_, .sampling = sampling_, .stop_tokens = {}};
    if (!ignore_eos_ && !source.directory.empty()) request.stop_tokens = read_generation_defaults(source.directory).eos;
    if (!ignore_eos_ && !source.gguf.empty())
      request.stop_tokens = gguf_generation_defaults(GgufFile::open(source.gguf)).eos;

    check_divisible(source, tp_);
    int64_t context = static_cast<int64_t>(request.prompt.size()) + max_tokens_;
    if (context > source.config.facts.max_position_embeddings)
      throw Error(
          "{} has a context of {} tokens, but the prompt has {} and --max-tokens asks for {} more; shorten one of "
          "them.",
          source.name, source.config.facts.max_position_embeddings, request.prompt.size(), max_tokens_);
    Ranks ranks(tp_, common);
    ThreadPool pool(common.threads);
    judged_ = activate_candidates(candidates_, common);
    TimedModel loaded = load_timed(model_, source, common, pool, ranks.communicator());
    uses_ = candidate_uses(*loaded.model.root);
    // To standard error: standard output is the text.
    if (std::string line = describe_uses(uses_); common.text() && !common.quiet && !line.empty())
      std::fputs(("[" + line + "]\n").c_str(), stderr);
    ModelExecutor executor(loaded.model, pool, {.max_sequences = 1, .max_context = context});
    Sampler sampler(1, {.device = common.device});
    std::optional<StreamDecoder> decoder;
    if (tokenizer) decoder.emplace(*tokenizer, true);
    Stopwatch watch;
    double first_token_s = 0;
    std::string text;
    auto emit = [&](const std::string& piece) {
      text += piece;
      if (common.text()) print_out(piece);
    };
    std::vector<int64_t> tokens = generate(executor, sampler, request, [&](int64_t token) {
      if (first_token_s == 0) first_token_s = watch.elapsed_s();
      emit(decoder ? decoder->step(static_cast<int32_t>(token)) : fmt::format("<{}>", token));
      return true;
    });
    if (decoder) emit(decoder->finish());
    dispatches_ = gathered_dispatches(ranks, collect_dispatches(*loaded.model.root));
    ranks.finish();
    report(common, loaded, request, tokens, text, first_token_s, watch.elapsed_s());
  }

 private:
  std::vector<int64_t> encode(const std::optional<Tokenizer>& tokenizer, const ModelSource& source) const {
    if (!prompt_ids_.empty()) return parse_token_ids(prompt_ids_);
    return encode_prompt(prompt_, tokenizer, source, model_, !chat_.wanted());
  }

  // Ids need no tokenizer: if it is not supported, ids are printed without text.
  std::optional<Tokenizer> find_tokenizer(const ModelSource& source, const CommonOptions& common) const {
    if (source.tokenizer.empty() && source.gguf.empty()) return std::nullopt;
    try {
      if (!source.gguf.empty()) return gguf_tokenizer(GgufFile::open(source.gguf));
      return Tokenizer::from_file(source.tokenizer);
    } catch (const Error& e) {
      if (prompt_ids_.empty()) throw;
      if (!common.quiet)
        std::fputs(printable_lines(fmt::format("[no text, only ids: {}]\n", e.what())).c_str(), stderr);
      return std::nullopt;
    }
  }

  void report(const CommonOptions& common, const TimedModel& loaded, const GenerateRequest& request,
              const std::vector<int64_t>& tokens, const std::string& text, double first_s, double total_s) const {
    auto count = static_cast<double>(tokens.size());
    double rate = tokens.size() > 1 ? (count - 1) / (total_s - first_s) : 0;
    if (common.text()) {
      print_out("\n");
      if (!common.quiet)
        std::fputs(
            fmt::format(
                "[{} prompt tokens, {} generated; first after {:.0f} ms, then {:.1f} tok/s; loaded in {:.1f} s]\n",
                request.prompt.size(), tokens.size(), first_s * 1e3, rate, loaded.load_ms * 1e-3)
                .c_str(),
            stderr);
      return;
    }
    if (common.json) {
      Json json = {{"model", loaded.model.name}, {"dtype", dtype_name(loaded.model.config.facts.dtype)},
                   {"prompt", prompt_},          {"prompt_token_ids", request.prompt},
                   {"token_ids", tokens},        {"text", text}};
      json["ttft_ms"] = first_s * 1e3;
      json["tokens_per_second"] = rate;
      json["load_ms"] = loaded.load_ms;
      json["candidates"] = to_json(uses_, judged_);
      json["cxxflags"] = candidates_.cxxflags;
      json["tp"] = tp_;
      json.update(dispatches_);
      return print_out(dump_json(json) + "\n");
    }
    Table table({{"step", "step"}, {"token_id", "token"}});
    for (size_t i = 0; i < tokens.size(); ++i) table.add_row({i, tokens[i]});
    table.print(common);
  }

  ModelOptions model_;
  CandidateOptions candidates_;
  std::vector<CandidateUse> uses_;
  std::vector<CandidateRecord> judged_;
  SamplingParams sampling_;
  ChatOptions chat_;
  std::string prompt_;  // with --chat: what the template makes of it
  const Flag* prompt_flag_ = nullptr;
  std::string prompt_ids_;
  int64_t max_tokens_ = 16;
  bool ignore_eos_ = false;
  int64_t tp_ = 1;
  Json dispatches_;
};

Generate generate_verb;

}  // namespace
}  // namespace fk
