// One side of a language model: throughput and latency of the workloads, forced decode on the baseline's tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "bench/eval/engine_passes.h"
#include "bench/eval/logits_reference.h"
#include "bench/eval/rounding_noise.h"
#include "bench/eval/sequences.h"
#include "bench/eval/side.h"
#include "core/error.h"
#include "measure/timer.h"

namespace fk {

Json to_json(const PositionErrors& errors) {
  // JSON has no NaN; a difference that is no number is as large as can be.
  auto numbers = [](const std::vector<float>& values) {
    Json list = Json::array();
    for (float value : values) list.push_back(std::isfinite(value) ? value : 1e30F);
    return list;
  };
  return {{"errors", numbers(errors.errors)}, {"margins", numbers(errors.margins)}};
}

PositionErrors position_errors_of(const Json& json) {
  return {json.at("errors").get<std::vector<float>>(), json.at("margins").get<std::vector<float>>()};
}

int64_t repeats_for(double seconds, int64_t least) {
  constexpr double kEnough = 0.5;
  constexpr int64_t kMost = 20;
  int64_t most = std::max(least, kMost);
  return seconds > 0 ? static_cast<int64_t>(std::clamp(std::ceil(kEnough / seconds), static_cast<double>(least),
                                                       static_cast<double>(most)))
                     : most;
}

Json run_side(const Model& model, ThreadPool& pool, const SideTask& task, bool first) {
  if (model.config.facts.task == Task::kDiffusionLM) return run_denoiser_side(model, pool, task, first);
  return is_encoder(model.config.facts.task) ? run_encoder_side(model, pool, task, first)
                                             : run_causal_side(model, pool, task, first);
}

namespace {

// Requests of one batch in a check: as many as in fixed-batch-32, so that kernels for larger batches are checked too.
constexpr int64_t kCheckedRows = 32;
constexpr int64_t kNoiseRows = 4;      // of them, run alone as well
constexpr int64_t kStepTokens = 2048;  // of a prompt in one pass

class CausalSide {
 public:
  CausalSide(const Model& model, ThreadPool& pool, const SideTask& task, bool first)
      : task_(task),
        first_(first),
        workloads_(eval_workloads(Task::kCausalLM, parse_scale(task.pair.scale))),
        vocab_size_(model.config.facts.vocab_size),
        model_(model),
        pool_(pool) {
    sequences_.emplace(model, pool, options(workloads_));
  }

  Json run() {
    switch (task_.phase) {
      case SidePhase::kReference:
        return reference();
      case SidePhase::kTimed:
        return timed();
      case SidePhase::kScored:
        return scored();
    }
    return {};
  }

 private:
  EnginePasses make_engine() const {
    int64_t longest = options(workloads_).max_context;
    return {model_, pool_, std::max(kCheckedRows, std::min(task_.pair.max_num_seqs, task_.pair.num_prompts)), longest};
  }
  static EngineOptions options(const std::vector<EvalWorkload>& workloads) {
    EngineOptions options{.max_sequences = kCheckedRows, .max_context = 0, .max_step_tokens = kStepTokens};
    for (const EvalWorkload& w : workloads) options.max_context = std::max(options.max_context, w.length());
    return options;
  }

  int64_t requests(const EvalWorkload& w) const { return w.batch > 0 ? w.batch : task_.pair.num_prompts; }
  TokenRows prompts(const EvalWorkload& w, const std::string& purpose, int64_t count) const {
    return eval_prompts(task_.pair.seed, w.name + " " + purpose, count, w.input_tokens, vocab_size_);
  }
  TokenRows checked_prompts(const EvalWorkload& w) const {
    return prompts(w, "check", std::min(requests(w), kCheckedRows));
  }

  double seconds(const std::function<void()>& work) {
    if (model_.communicator != nullptr) model_.communicator->barrier();
    Stopwatch watch;
    work();
    return static_cast<double>(watch.elapsed_ns()) * 1e-9;
  }

  Json reference() {
    Json workloads = Json::object();
    for (const EvalWorkload& w : workloads_) {
      TokenRows checked = checked_prompts(w);
      LogitsReference reference(static_cast<int64_t>(checked.size()), w.output_tokens, task_.pair.seed);
      // The tokens are known only after the visit, so that they are drawn first and forced then.
      TokenRows drawn = sequences_->draw(checked, w.output_tokens);
      sequences_->force(checked, drawn, [&](int64_t step, int64_t row, std::span<const float> logits) {
        reference.set(row, step, logits, drawn[static_cast<size_t>(row)][static_cast<size_t>(step)]);
      });
      if (first_) reference.write(reference_path(task_.pair, w.name));
      // The same sequences in a batch of another size: alone, or with others beside it where it was alone.
      PositionErrors noise;
      auto rows = std::min<int64_t>(kNoiseRows, reference.rows());
      for (int64_t row = 0; row < rows; ++row) {
        TokenRows prompt = {checked[static_cast<size_t>(row)]}, tokens = {drawn[static_cast<size_t>(row)]};
        if (reference.rows() == 1) {
          prompt.resize(kCheckedRows, prompt.front());
          tokens.resize(kCheckedRows, tokens.front());
        }
        sequences_->force(prompt, tokens, [&](int64_t step, int64_t of_batch, std::span<const float> logits) {
          if (of_batch == 0) reference.compare(row, step, logits, noise);
        });
      }
      workloads[w.name] = {{"noise", to_json(noise)}};
    }
    if (model_.communicator != nullptr) model_.communicator->barrier();  // the files are written
    sequences_.reset();
    RoundingNoise rounding(model_, task_.pair.seed);
    sequences_.emplace(model_, pool_, options(workloads_));
    Json rounded = check();
    sequences_.reset();
    EnginePasses engine = make_engine();
    for (const EvalWorkload& w : workloads_) {
      Json& result = workloads[w.name];
      result["rounding"] = rounded[w.name];
      TokenRows all = prompts(w, "first pass", requests(w));
      double once = seconds([&] { engine.run(all, w.output_tokens); });
      result["repeats"] = repeats_for(once, w.throughput ? 1 : task_.pair.iterations);
    }
    return {{"workloads", workloads}};
  }

  Json timed() {
    Json checks = Json::array(), workloads = Json::object();
    if (task_.check_before) checks.push_back({{"when", "before"}, {"workloads", check()}});
    sequences_.reset();  // its cache and the engine's do not have to fit together
    {
      EnginePasses engine = make_engine();
      for (const EvalWorkload& w : workloads_) workloads[w.name] = timed_workload(w, engine);
    }
    sequences_.emplace(model_, pool_, options(workloads_));
    if (task_.check_after) checks.push_back({{"when", "after"}, {"workloads", check()}});
    return {{"workloads", workloads}, {"checks", checks}};
  }

  Json timed_workload(const EvalWorkload& w, EnginePasses& engine) {
    // Warm-up, with prompts of its own.
    constexpr int64_t kWarmSteps = 8;
    engine.run(prompts(w, "warm-up", std::min(requests(w), task_.pair.max_num_seqs)),
               std::min(w.output_tokens, kWarmSteps));
    Json times = Json::array(), drawn = Json::array();
    for (int64_t i = 0; i < task_.repeats.at(w.name); ++i) {
      TokenRows all = prompts(w, timed_purpose(task_.round, i), requests(w)), tokens;
      times.push_back(1e3 * seconds([&] { tokens = engine.run(all, w.output_tokens); }));
      drawn.push_back(tokens);
    }
    return {{"times_ms", times}, {"drawn", drawn}};
  }

  // Forced decode on the baseline's tokens.
  Json check() {
    Json workloads = Json::object();
    for (const EvalWorkload& w : workloads_) {
      LogitsReference reference = LogitsReference::read(reference_path(task_.pair, w.name));
      TokenRows checked = checked_prompts(w), tokens;
      if (reference.rows() != static_cast<int64_t>(checked.size()) || reference.steps() != w.output_tokens)
        throw Error("The baseline's logits in {} are of another evaluation; delete the folder and start again.",
                    task_.pair.folder);
      for (int64_t row = 0; row < reference.rows(); ++row) tokens.push_back(reference.tokens(row));
      PositionErrors errors;
      sequences_->force(checked, tokens, [&](int64_t step, int64_t row, std::span<const float> logits) {
        reference.compare(row, step, logits, errors);
      });
      workloads[w.name] = to_json(errors);
    }
    return workloads;
  }

  // What was drawn while the clock ran, judged by this side's logits.
  Json scored() {
    Json workloads = Json::object();
    Json chosen = parse_json_file(scored_path(task_.pair));
    for (const EvalWorkload& w : workloads_)
      for (const char* side : {"candidate", "baseline"}) {
        TokenRows all_prompts, tokens;
        for (const Json& request : chosen.at(w.name).at(side)) {
          int64_t index = request.at("request").get<int64_t>();
          TokenRows of_pass = prompts(
              w, timed_purpose(request.at("round").get<int64_t>(), request.at("pass").get<int64_t>()), requests(w));
          all_prompts.push_back(of_pass.at(static_cast<size_t>(index)));
          tokens.push_back(request.at("tokens").get<std::vector<int64_t>>());
          // A candidate's process wrote them: nothing about them is certain.
          for (int64_t& token : tokens.back())
            if (token < 0 || token >= vocab_size_) throw Error("A token outside the vocabulary was drawn.");
          if (static_cast<int64_t>(tokens.back().size()) != w.output_tokens)
            throw Error("{} tokens were drawn where {} were asked for.", tokens.back().size(), w.output_tokens);
        }
        PositionErrors margins;
        sequences_->force(all_prompts, tokens, [&](int64_t step, int64_t row, std::span<const float> logits) {
          float margin = token_margin(logits, tokens[static_cast<size_t>(row)][static_cast<size_t>(step)]);
          margins.errors.push_back(margin);
          margins.margins.push_back(margin);
        });
        workloads[w.name][side] = to_json(margins);
      }
    return {{"workloads", workloads}};
  }

  static std::string timed_purpose(int64_t round, int64_t pass) { return fmt::format("timed {} {}", round, pass); }

  const SideTask& task_;
  bool first_;
  std::vector<EvalWorkload> workloads_;
  int64_t vocab_size_;
  const Model& model_;
  ThreadPool& pool_;
  std::optional<BatchedSequences> sequences_;
};

}  // namespace

Json run_causal_side(const Model& model, ThreadPool& pool, const SideTask& task, bool first) {
  return CausalSide(model, pool, task, first).run();
}

}  // namespace fk
