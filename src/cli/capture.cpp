// capture and capture-golden: run a model and record the arguments of its operators.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "bench/scenarios/capture.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/error.h"
#include "core/output_file.h"
#include "core/rng.h"
#include "models/gguf_tokenizer.h"

namespace fk {
namespace {

class CaptureVerb final : public Verb {
 public:
  CaptureVerb(const std::string& name, const std::string& summary, bool golden)
      : Verb(name, summary,
             {fmt::format("fastkernels {} --model tiny-llama --load-format dummy --prompt-tokens 64 --out run.yaml",
                          name),
              fmt::format("fastkernels {} --model ./my-checkpoint --prompt 'The capital of France is' --prompt 'Once' "
                          "--decode-tokens 32 --out run.yaml",
                          name)}),
        golden_(golden) {}

  void add_flags(FlagSet& flags) override {
    add_model_options(flags, model_);
    Flag& text = flags.option("--prompt", prompts_, "Text to continue; several run together as one batch");
    flags.option("--prompt-tokens", prompt_tokens_, "Instead: a prompt of so many random tokens; several likewise")
        .range(1, int64_t{1} << 24)
        .excludes(text);
    flags.option("--images", images_, "For an image encoder: so many random images").range(1, 4096).excludes(text);
    flags.option("--decode-tokens", options_.decode_tokens, "Tokens a language model generates after each prompt")
        .range(0, int64_t{1} << 20)
        .show_default();
    flags.option("--out", out_, "File the scenarios are written to").required().type_name("FILE");
  }

  void run(const CommonOptions& common) override {
    if (prompts_.empty() && prompt_tokens_.empty() && images_ == 0)
      throw UsageError("Give a --prompt, --prompt-tokens or, for an image encoder, --images.");
    std::filesystem::path folder = std::filesystem::absolute(out_).parent_path();
    if (!std::filesystem::is_directory(folder))
      throw Error("There is no folder '{}' to write to; make it first.", folder.string());
    check_output_path(out_);
    if (golden_ && is_special_file(out_))
      throw UsageError("capture-golden writes tensors beside --out; {} is not a regular file, name one", out_);
    ModelSource source = resolve_model(model_.model);
    if (!is_stateless(source.config.facts.task)) source.config.require_task(Task::kCausalLM, source.name, "capture");
    if ((source.config.facts.task == Task::kImageEncoder) != (images_ > 0))
      throw UsageError("{} is {}; give it {}.", source.name, task_info(source.config.facts.task).words,
                       images_ > 0 ? "a --prompt or --prompt-tokens" : "--images");
    check_loadable(source, load_options(model_, source, common));
    std::optional<Tokenizer> tokenizer;
    if (!source.tokenizer.empty() && !prompts_.empty()) tokenizer = Tokenizer::from_file(source.tokenizer);
    if (!source.gguf.empty() && !prompts_.empty()) tokenizer = gguf_tokenizer(GgufFile::open(source.gguf));
    for (const std::string& prompt : prompts_)
      options_.inputs.texts.push_back(encode_prompt(prompt, tokenizer, source, model_));
    for (size_t i = 0; i < prompt_tokens_.size(); ++i) {
      Stream stream(common.seed, fmt::format("prompt {}", i));
      options_.inputs.texts.emplace_back();
      for (int64_t k = 0; k < prompt_tokens_[i]; ++k)
        options_.inputs.texts.back().push_back(static_cast<int64_t>(
            stream.below(static_cast<uint64_t>(k), static_cast<uint64_t>(source.config.facts.vocab_size))));
    }
    options_.golden = golden_;
    ThreadPool pool(common.threads);
    TimedModel loaded = load_timed(model_, source, common, pool);
    if (images_ > 0) options_.inputs = make_encoder(loaded.model, pool)->random_input(images_, 0, common.seed);
    Capture capture = capture_to_file(loaded.model, pool, options_, out_);
    report(capture, common);
  }

 private:
  void report(const Capture& capture, const CommonOptions& common) const {
    Table table({{"level", "LEVEL"}, {"operator", "OPERATOR"}, {"scenarios", "SCENARIOS"}, {"calls", "CALLS"}});
    for (size_t i = 0; i < capture.scenarios.size();) {
      const Scenario& first = capture.scenarios[i];
      int64_t scenarios = 0, calls = 0;
      for (; i < capture.scenarios.size() && capture.scenarios[i].op == first.op; ++i, ++scenarios)
        calls += capture.scenarios[i].count;
      table.add_row({first.info().level, first.op, scenarios, calls});
    }
    if (common.json) {
      Json json = {{"file", out_}, {"operators", table.to_json()}, {"unmatched", capture.unmatched}};
      if (golden_) json["golden_tensors"] = capture.tensors;
      return print_out(dump_json(json) + "\n");
    }
    table.print(common);
    if (common.csv) return;
    print_text(fmt::format("\n{} scenarios in {}", capture.scenarios.size(), out_));
    print_out(golden_ ? fmt::format(", {} tensors beside it\n", capture.tensors) : "\n");
    for (const std::string& call : capture.unmatched)
      print_out(fmt::format("left out: {}: its contract has no workload that makes these shapes\n", call));
  }

  bool golden_;
  ModelOptions model_;
  CaptureOptions options_;
  std::vector<std::string> prompts_;
  std::vector<int64_t> prompt_tokens_;
  int64_t images_ = 0;
  std::string out_;
};

CaptureVerb capture("capture", "Record the scenarios of a real run of a model", false);
CaptureVerb capture_golden("capture-golden", "Record them with the real values of ids, positions and block tables",
                           true);

}  // namespace
}  // namespace fk
