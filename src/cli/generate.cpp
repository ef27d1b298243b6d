// generate: continues prompts and prints the text as it comes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <optional>

#include "cli/candidate_options.h"
#include "cli/engine_options.h"
#include "cli/generate_options.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/ranks.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/error.h"
#include "core/printable.h"
#include "engine/batching_engine.h"
#include "measure/timer.h"
#include "models/gguf_model.h"
#include "models/gguf_tokenizer.h"
#include "models/tokenizer.h"

namespace fk {
namespace {

// What a request has got so far.
struct Generated {
  std::vector<int64_t> tokens;
  std::string text;
  std::vector<DrawnLogprobs> logprobs, prompt_logprobs;
  RequestOutput last;
  double first_s = 0, last_s = 0;  // since the requests were submitted

  void add(RequestOutput output, double now_s) {
    if (tokens.empty() && !output.tokens.empty()) first_s = now_s;
    last_s = now_s;
    tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
    logprobs.insert(logprobs.end(), output.logprobs.begin(), output.logprobs.end());
    if (!output.prompt_logprobs.empty()) prompt_logprobs = std::move(output.prompt_logprobs);
    text += output.text;
    if (output.finish == FinishReason::kNone) return;
    // A stop token ends the text and is not part of it.
    if (!tokens.empty() && output.finish == FinishReason::kStop &&
        output.stop_reason == std::to_string(tokens.back())) {
      tokens.pop_back();
      if (!logprobs.empty()) logprobs.pop_back();
    }
    last = std::move(output);
  }

  // Of the prompt; of one token 1, since nothing is known before it.
  double perplexity() const {
    double sum = 0;
    for (const DrawnLogprobs& p : prompt_logprobs) sum -= static_cast<double>(p.drawn.logprob);
    return std::exp(sum / static_cast<double>(std::max<size_t>(prompt_logprobs.size(), 1)));
  }
};

std::string top_text(const DrawnLogprobs& p) {
  std::string top;
  for (const TokenLogprob& t : p.top) top += fmt::format("{}{} {:.4f}", top.empty() ? "" : ", ", t.token, t.logprob);
  return top;
}

class Generate final : public Verb {
 public:
  Generate()
      : Verb(
            "generate", "Continue one or several prompts",
            {"fastkernels generate --model ./my-checkpoint --prompt 'The capital of France is' --max-tokens 32",
             "fastkernels generate --model tiny-llama --load-format dummy --prompt 'Hello' --max-tokens 8",
             "fastkernels generate --model ./my-checkpoint --prompt 'Once' --temperature 0.8 --top-p 0.95 --seed 7",
             "fastkernels generate --model ./my-checkpoint --chat --system 'Be brief.' --prompt 'Why is the sky blue?'",
             "fastkernels generate --model ./my-checkpoint --prompt-file a.txt --prompt-file b.txt --stop '###' --n 2",
             "git diff | fastkernels generate --model ./my-checkpoint --prompt-file - --repetition-penalty 1.1",
             "fastkernels generate --model tiny-qwen3 --load-format dummy --prompt-token-ids 5,17,99 --logprobs 3 "
             "--json",
             "fastkernels generate --model ./my-checkpoint --prompt-file a.txt --prompt-logprobs 0 --max-tokens 0   # "
             "its "
             "perplexity",
             "fastkernels generate --model ./my-checkpoint --prompt-file code.py --speculative-config '{\"method\": "
             "\"ngram\"}'",
             "fastkernels generate --model ./my-checkpoint --prompt 'Once' --speculative-config '{\"model\": "
             "\"./a-small-one\", \"num_speculative_tokens\": 4}'",
             "fastkernels generate --model tiny-llama --load-format dummy --prompt-token-ids 5,17,99 --tp 2   # on two "
             "ranks"}) {}

  void add_flags(FlagSet& flags) override {
    add_model_options(flags, model_);
    add_candidate_options(flags, candidates_);
    add_rank_options(flags, tp_);
    what_.add_flags(flags);
    speculative_.add(flags);
    add_batch_invariant_flag(flags, batch_invariant_);
  }

  void run(const CommonOptions& given) override {
    CommonOptions common = given;
    what_.check(common.seed, tp_);
    speculative_.read();
    ModelSource source = resolve_model(model_.model);
    source.config.require_task(Task::kCausalLM, source.name, "generate");
    check_loadable(source, load_options(model_, source, common));
    std::optional<Tokenizer> tokenizer = find_tokenizer(source, common);
    prompts_ = what_.prompts(tokenizer, source, model_);
    if (!source.directory.empty()) defaults_ = what_.take_defaults(read_generation_defaults(source.directory));
    if (!source.gguf.empty()) defaults_ = what_.take_defaults(gguf_generation_defaults(GgufFile::open(source.gguf)));
    check_divisible(source, tp_);
    const BatchingOptions options = batching_options(source);
    check_model_allows(source, options, common.device);
    speculative_.find_draft(source, model_, options, tp_, common);
    Ranks ranks(tp_, common);
    ThreadPool pool(common.threads);
    judged_ = activate_candidates(candidates_, common);
    const double draft_ms = speculative_.load_draft(model_, common, pool);
    TimedModel loaded = load_timed(model_, source, common, pool, ranks.communicator());
    loaded.load_ms += draft_ms;
    uses_ = candidate_uses(*loaded.model.root);
    // To standard error: standard output is the text.
    for (const std::string& line : {describe_uses(uses_), defaults_})
      if (common.text() && !common.quiet && !line.empty()) std::fputs(("[" + line + "]\n").c_str(), stderr);
    BatchingEngine engine(loaded.model, pool, std::move(tokenizer), options, speculative_.draft(loaded.model));
    run_requests(engine, common);
    stats_ = engine.stats();
    dispatches_ = gathered_dispatches(ranks, collect_dispatches(*loaded.model.root));
    ranks.finish();
    report(common, loaded);
  }

 private:
  // As large as these requests need it.
  BatchingOptions batching_options(const ModelSource& source) {
    int64_t longest = 0;
    for (const GivenPrompt& prompt : prompts_) {
      int64_t context = std::ssize(prompt.ids) + what_.max_tokens();
      longest = std::max(longest, context);
      if (context > source.config.facts.max_position_embeddings)
        throw Error(
            "{} has a context of {} tokens, but the prompt has {} and --max-tokens asks for {} more; shorten one of "
            "them.",
            source.name, source.config.facts.max_position_embeddings, prompt.ids.size(), what_.max_tokens());
    }
    const int64_t requests = std::ssize(prompts_) * what_.samples();
    BatchingOptions options{.max_num_seqs = std::min<int64_t>(requests, 256), .max_model_len = longest};
    // A single request gets the cache it needs, whatever a server would take.
    options.speculative = speculative_.read();
    options.batch_invariant = batch_invariant_;
    if (requests == 1) options.num_blocks = (longest + options.block_size - 1) / options.block_size;
    return options;
  }

  bool single() const { return prompts_.size() == 1 && what_.samples() == 1; }

  // Results are printed in the order of the prompts, each when all before it have been printed.
  void run_requests(BatchingEngine& engine, const CommonOptions& common) {
    results_.resize(prompts_.size() * static_cast<size_t>(what_.samples()));
    watch_ = {};
    for (size_t i = 0; i < results_.size(); ++i) {
      Request request =
          what_.request(prompts_[i / static_cast<size_t>(what_.samples())], static_cast<int64_t>(i) % what_.samples());
      auto sink = [this, &common, i](RequestOutput output) {
        if (output_closed_) return;
        const std::string piece = output.text;
        results_[i].add(std::move(output), watch_.elapsed_s());
        if (!common.text()) return;
        try {
          if (single()) print_out(piece);
          for (; !single() && printed_ < results_.size() && results_[printed_].last.finish != FinishReason::kNone;
               ++printed_)
            print_out(heading(printed_) + results_[printed_].text + "\n");
        } catch (...) {
          output_closed_ = std::current_exception();  // the engine would swallow it
        }
      };
      try {
        engine.submit(std::move(request), sink);
      } catch (const UsageError& e) {  // the flags are right, and the prompt is not
        output_closed_ = std::current_exception();
        throw Error("{}", e.what());
      }
    }
    while (!output_closed_ && engine.step()) continue;
    total_s_ = watch_.elapsed_s();
    if (output_closed_) std::rethrow_exception(output_closed_);
    for (const Generated& result : results_)
      if (!result.last.error.empty()) throw Error("{}", result.last.error);
  }

  std::string heading(size_t i) const {
    const auto samples = static_cast<size_t>(what_.samples());
    std::string words = fmt::format("prompt {} of {}", i / samples + 1, prompts_.size());
    if (samples > 1) words += fmt::format(", text {} of {}", i % samples + 1, samples);
    return fmt::format("== {} ==\n", words);
  }

  // Ids need no tokenizer: if it is not supported, ids are printed without text.
  std::optional<Tokenizer> find_tokenizer(const ModelSource& source, const CommonOptions& common) const {
    if (source.tokenizer.empty() && source.gguf.empty()) return std::nullopt;
    try {
      if (!source.gguf.empty()) return gguf_tokenizer(GgufFile::open(source.gguf));
      return Tokenizer::from_file(source.tokenizer);
    } catch (const Error& e) {
      if (!what_.has_ids()) throw;
      if (!common.quiet)
        std::fputs(printable_lines(fmt::format("[no text, only ids: {}]\n", e.what())).c_str(), stderr);
      return std::nullopt;
    }
  }

  void report(const CommonOptions& common, const TimedModel& loaded) const {
    if (common.json) return print_out(dump_json(to_json(loaded)) + "\n");
    if (common.csv) return table().print(common);
    if (single()) print_out("\n");
    for (size_t i = 0; i < results_.size(); i += static_cast<size_t>(what_.samples())) print_prompt(i);
    if (!results_[0].logprobs.empty()) print_out(table().to_text());
    if (!common.quiet) std::fputs(summary(loaded).c_str(), stderr);
    if (!common.quiet && speculative_.given())
      std::fputs(fmt::format("[{}]\n", speculation_words(stats_)).c_str(), stderr);
  }

  void print_prompt(size_t i) const {
    const Generated& result = results_[i];
    if (result.prompt_logprobs.empty()) return;
    Table table({{"position", "position"},
                 {"token_id", "token"},
                 {"logprob", "log-probability"},
                 {"rank", "rank"},
                 {"top", "most likely"}});
    for (size_t k = 0; k < result.prompt_logprobs.size(); ++k) {
      const DrawnLogprobs& p = result.prompt_logprobs[k];
      table.add_row({k + 1, p.drawn.token, Cell(static_cast<double>(p.drawn.logprob), 4), p.rank, top_text(p)});
    }
    print_out(fmt::format("{}{}perplexity of the prompt: {:.4f}\n\n", single() ? "" : heading(i), table.to_text(),
                          result.perplexity()));
  }

  std::string summary(const TimedModel& loaded) const {
    size_t prompt_tokens = 0, tokens = 0;
    for (const GivenPrompt& prompt : prompts_) prompt_tokens += prompt.ids.size();
    for (const Generated& result : results_) tokens += result.tokens.size();
    if (single())
      return fmt::format(
          "[{} prompt tokens, {} generated; first after {:.0f} ms, then {:.1f} tok/s; loaded in {:.1f} s]\n",
          prompt_tokens, tokens, results_[0].first_s * 1e3, rate(results_[0]), loaded.load_ms * 1e-3);
    return fmt::format(
        "[{} prompts of {} tokens together, {} generated in {:.2f} s, {:.1f} tok/s; loaded in {:.1f} s]\n",
        prompts_.size(), prompt_tokens, tokens, total_s_, static_cast<double>(tokens) / total_s_,
        loaded.load_ms * 1e-3);
  }

  // Of the tokens after the first.
  static double rate(const Generated& result) {
    if (result.tokens.size() < 2) return 0;
    return static_cast<double>(result.tokens.size() - 1) / (result.last_s - result.first_s);
  }

  static Json logprobs_json(const std::vector<DrawnLogprobs>& logprobs) {
    Json list = Json::array();
    for (const DrawnLogprobs& p : logprobs) {
      Json top = Json::array();
      for (const TokenLogprob& t : p.top) top.push_back({{"token_id", t.token}, {"logprob", t.logprob}});
      list.push_back({{"token_id", p.drawn.token}, {"logprob", p.drawn.logprob}, {"top", std::move(top)}});
      if (p.rank > 0) list.back()["rank"] = p.rank;
    }
    return list;
  }

  Json to_json(const TimedModel& loaded) const {
    Json all = Json::array();
    for (size_t i = 0; i < results_.size(); ++i) {
      const Generated& result = results_[i];
      const GivenPrompt& prompt = prompts_[i / static_cast<size_t>(what_.samples())];
      Json one = {{"prompt", prompt.text},
                  {"prompt_token_ids", prompt.ids},
                  {"token_ids", result.tokens},
                  {"text", result.text},
                  {"finish_reason", finish_reason_name(result.last.finish)},
                  {"stop_reason", result.last.stop_reason},
                  {"cached_tokens", result.last.cached_tokens},
                  {"ttft_ms", result.first_s * 1e3},
                  {"tokens_per_second", rate(result)}};
      if (!result.logprobs.empty()) one["logprobs"] = logprobs_json(result.logprobs);
      if (!result.prompt_logprobs.empty()) {
        one["prompt_logprobs"] = logprobs_json(result.prompt_logprobs);
        one["perplexity"] = result.perplexity();
      }
      all.push_back(std::move(one));
    }
    // A single result is the object itself.
    Json json = single() ? all[0] : Json{{"results", all}, {"total_ms", total_s_ * 1e3}};
    json["model"] = loaded.model.name;
    json["dtype"] = dtype_name(loaded.model.config.facts.dtype);
    json["load_ms"] = loaded.load_ms;
    json["sampling"] = sampling_json();
    json["candidates"] = fk::to_json(uses_, judged_);
    json["cxxflags"] = candidates_.cxxflags;
    json["tp"] = tp_;
    if (speculative_.given()) json["speculation"] = speculation_json(stats_);
    json.update(dispatches_);
    return json;
  }

  Json sampling_json() const {
    const SamplingParams& p = what_.sampling();
    return {{"temperature", p.temperature},
            {"top_k", p.top_k},
            {"top_p", p.top_p},
            {"min_p", p.min_p},
            {"repetition_penalty", p.repetition_penalty},
            {"presence_penalty", p.presence_penalty},
            {"frequency_penalty", p.frequency_penalty},
            {"seed", p.seed}};
  }

  Table table() const {
    const bool with_logprobs = !results_[0].logprobs.empty();
    std::vector<Table::Column> columns;
    if (!single()) columns.push_back({"result", "result"});
    columns.push_back({"step", "step"});
    columns.push_back({"token_id", "token"});
    if (with_logprobs) {
      columns.push_back({"logprob", "log-probability"});
      columns.push_back({"top", "most likely"});
    }
    Table table(columns);
    for (size_t r = 0; r < results_.size(); ++r)
      for (size_t i = 0; i < results_[r].tokens.size(); ++i) {
        std::vector<Cell> cells;
        if (!single()) cells.emplace_back(r + 1);
        cells.emplace_back(i);
        cells.emplace_back(results_[r].tokens[i]);
        if (with_logprobs) {
          const DrawnLogprobs& p = results_[r].logprobs[i];
          cells.emplace_back(static_cast<double>(p.drawn.logprob), 4);
          cells.emplace_back(top_text(p));
        }
        table.add_row(std::move(cells));
      }
    return table;
  }

  ModelOptions model_;
  CandidateOptions candidates_;
  GenerateOptions what_;
  std::vector<CandidateUse> uses_;
  std::vector<CandidateRecord> judged_;
  std::vector<GivenPrompt> prompts_;
  std::vector<Generated> results_;
  std::string defaults_;  // a sentence
  SpeculativeFlag speculative_;
  bool batch_invariant_ = false;
  EngineStats stats_;
  Stopwatch watch_;
  std::exception_ptr output_closed_;  // nothing more is printed
  size_t printed_ = 0;                // results
  double total_s_ = 0;
  int64_t tp_ = 1;
  Json dispatches_;
};

Generate generate_verb;

}  // namespace
}  // namespace fk
