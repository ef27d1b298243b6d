#include "compiler/plan/step_trial.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "engine/decode_loop.h"
#include "engine/encoder.h"
#include "engine/model_executor.h"
#include "engine/rank_agreement.h"
#include "measure/paired.h"
#include "measure/timer.h"

namespace fk {
namespace {

constexpr int64_t kContext = 32;  // tokens that a sequence has before it decodes
constexpr int64_t kSteps = 64;    // that a sequence decodes before it begins again
constexpr size_t kStepLaunches = 3, kLeastPairs = 2, kMostPairs = 40;

std::vector<int64_t> tokens_of(const Model& model, int64_t count, int64_t start) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back((start + 7 * i) % model.config.facts.vocab_size);
  return ids;
}

// Runs steps of one kind, each as the others.
class StepRunner {
 public:
  virtual ~StepRunner() = default;
  virtual double step_ns() = 0;

 protected:
  template <class Work>
  static double timed(const Work& work) {
    const int64_t start = now_ns();
    work();
    return static_cast<double>(now_ns() - start);
  }
};

class EncoderRunner final : public StepRunner {
 public:
  EncoderRunner(const Model& model, ThreadPool& pool, const StepSizes& sizes)
      : encoder_(make_encoder(model, pool)), input_(encoder_->random_input(sizes.sequences, sizes.tokens, 1)) {}

  double step_ns() override {
    return timed([&] { encoder_->forward(input_); });
  }

 private:
  std::unique_ptr<Encoder> encoder_;
  EncoderInput input_;
};

EngineOptions executor_options(const StepSizes& sizes) {
  EngineOptions options;
  options.max_sequences = sizes.sequences + 1;
  options.max_context = std::max(kContext + kSteps, sizes.tokens);
  options.max_step_tokens = std::max(kContext, sizes.tokens + 1) * options.max_sequences;
  return options;
}

// Prompts, beside sequences that decode or alone.
class PromptRunner final : public StepRunner {
 public:
  PromptRunner(const Model& model, ThreadPool& pool, GraphPhase phase, const StepSizes& sizes)
      : executor_(model, pool, executor_options(sizes)), sizes_(sizes), mixed_(phase == GraphPhase::kMixed) {
    for (int64_t i = 0; i < sizes.sequences; ++i) prompts_.push_back(tokens_of(model, sizes.tokens, i));
    context_ = tokens_of(model, kContext, 5);
  }

  double step_ns() override {
    const size_t prompts = mixed_ ? 1 : prompts_.size();
    std::vector<RunningSequence> fresh;
    for (size_t i = 0; i < prompts; ++i) fresh.push_back(executor_.start());
    if (mixed_ && (decoding_.empty() || decoding_.front().length + 1 > kContext + kSteps)) begin_decoding();
    std::vector<NewTokens> items;
    for (RunningSequence& s : decoding_) items.push_back({&s, {context_.data(), 1}});
    for (size_t i = 0; i < prompts; ++i) items.push_back({&fresh[i], prompts_[i]});
    const double ns = timed([&] {
      executor_.forward(items);
      executor_.wait();
    });
    for (RunningSequence& s : fresh) executor_.finish(s);
    return ns;
  }

 private:
  void begin_decoding() {
    for (RunningSequence& s : decoding_) executor_.finish(s);
    decoding_.assign(static_cast<size_t>(sizes_.sequences), {});
    for (RunningSequence& s : decoding_) {
      s = executor_.start();
      executor_.prefill(s, context_);
    }
  }

  ModelExecutor executor_;
  StepSizes sizes_;
  bool mixed_;
  std::vector<std::vector<int64_t>> prompts_;
  std::vector<int64_t> context_;
  std::vector<RunningSequence> decoding_;
};

// As generation runs them: on a device a step is recorded once.
class DecodeRunner final : public StepRunner {
 public:
  DecodeRunner(const Model& model, ThreadPool& pool, const StepSizes& sizes)
      : executor_(model, pool, executor_options(sizes)),
        loop_(executor_, sizes.sequences),
        sequences_(static_cast<size_t>(sizes.sequences)),
        context_(tokens_of(model, kContext, 5)) {}

  double step_ns() override {
    if (left_ == 0) begin();
    --left_;
    return timed([&] {
      loop_.step();
      executor_.wait();
    });
  }

 private:
  void begin() {
    std::vector<RunningSequence*> all;
    for (RunningSequence& s : sequences_) {
      if (begun_) executor_.finish(s);
      s = executor_.start();
      executor_.prefill(s, context_);
      all.push_back(&s);
    }
    begun_ = true;
    const std::vector<int64_t> first(all.size(), 1), drawn(all.size(), 0);
    const std::vector<SamplingParams> greedy(all.size());
    loop_.start(all, first, greedy, drawn, kSteps);
    executor_.wait();
    left_ = kSteps;
  }

  ModelExecutor executor_;
  DecodeLoop loop_;
  std::vector<RunningSequence> sequences_;
  std::vector<int64_t> context_;
  int64_t left_ = 0;
  bool begun_ = false;
};

std::unique_ptr<StepRunner> make_runner(const Model& model, ThreadPool& pool, GraphPhase phase,
                                        const StepSizes& sizes) {
  if (phase == GraphPhase::kEncode) return std::make_unique<EncoderRunner>(model, pool, sizes);
  if (phase == GraphPhase::kDecode) return std::make_unique<DecodeRunner>(model, pool, sizes);
  return std::make_unique<PromptRunner>(model, pool, phase, sizes);
}

int64_t new_tokens(GraphPhase phase, const StepSizes& sizes) {
  if (phase == GraphPhase::kDecode) return sizes.sequences;
  return phase == GraphPhase::kMixed ? sizes.sequences + sizes.tokens : sizes.sequences * sizes.tokens;
}

RegionTiming timed_steps(CompiledModel& compiled, const Model& model, ThreadPool& pool, GraphPhase phase,
                         const StepSizes& sizes, const StepTrialOptions& options) {
  PairedSamples samples, control;
  size_t pairs = kMostPairs;
  for (size_t launch = 0; launch < kStepLaunches; ++launch) {
    // Each side has states of its own, and what a device recorded of it.
    std::unique_ptr<StepRunner> tree, plan;
    std::string no_room;
    try {
      tree = make_runner(model, pool, phase, sizes);
      plan = make_runner(model, pool, phase, sizes);
    } catch (const Error& e) {
      no_room = e.what();
    }
    // Ranks make the same steps, or none.
    if (least_of_all_ranks(no_room.empty() ? 1 : 0, model) == 0)
      throw Error("{}", no_room.empty() ? "Another rank has no memory for them." : no_room);
    auto step = [&](StepRunner& runner) {
      compiled.leave_to_tree(phase, &runner == tree.get());
      return runner.step_ns();
    };
    // The first allocates, the second is recorded.
    double longest = 0;
    for (int i = 0; i < 3; ++i) longest = std::max(step(*tree), step(*plan));
    if (launch == 0) {
      pairs = std::clamp(static_cast<size_t>(options.seconds * 1e9 / (3.0 * kStepLaunches * std::max(longest, 1.0))),
                         kLeastPairs, kMostPairs);
      pairs = static_cast<size_t>(least_of_all_ranks(static_cast<int64_t>(pairs), model));
    }
    samples.emplace_back();
    control.emplace_back();
    for (size_t p = 0; p < pairs; ++p) {
      const double first = step(*tree), ours = step(*plan), second = step(*tree);
      samples.back().push_back({p % 2 == 0 ? first : second, ours});
      control.back().push_back(p % 2 == 0 ? TimePair{first, second} : TimePair{second, first});
    }
  }
  return timing_of(new_tokens(phase, sizes), samples, control, options.seed);
}

}  // namespace

TrialResult try_step(CompiledModel& compiled, const Model& model, ThreadPool& pool, GraphPhase phase,
                     const StepTrialOptions& options) {
  TrialResult result;
  if (phase != GraphPhase::kEncode && model.config.facts.max_position_embeddings < kContext + kSteps) return result;
  const bool before = compiled.left_to_tree(phase);
  for (const StepSizes& sizes : options.sizes)
    result.timings.push_back(timed_steps(compiled, model, pool, phase, sizes, options));
  compiled.leave_to_tree(phase, before);
  return result;
}

bool keeps_tree(const TrialResult& steps) {
  constexpr double kClearlyBelow = 0.98;
  return std::any_of(steps.timings.begin(), steps.timings.end(), [](const RegionTiming& t) {
    return t.verdict == "SLOWER" || t.verdict == "INVALID" || (t.verdict == "UNRESOLVED" && t.speedup < kClearlyBelow);
  });
}

std::string step_text(const TrialResult& steps) {
  if (steps.timings.empty()) return "no step was timed";
  const RegionTiming& t = *std::min_element(steps.timings.begin(), steps.timings.end(),
                                            [](const auto& a, const auto& b) { return a.speedup < b.speedup; });
  return fmt::format(
      "a step of {} token{} takes {:.3f} ms by the plan and {:.3f} ms by the tree: {:.3f}x ({:.3f} to "
      "{:.3f}, {})",
      t.rows, t.rows == 1 ? "" : "s", t.kernel_ns * 1e-6, t.calls_ns * 1e-6, t.speedup, t.low, t.high, t.verdict);
}

}  // namespace fk
