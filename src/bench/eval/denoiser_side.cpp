// One side of a diffusion language model: steps of denoising per second, and the time of one text; its logits along the
// baseline's own trajectory, from all masks to the finished text, are compared with the baseline's.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "bench/eval/rounding_noise.h"
#include "bench/eval/side.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "core/output_file.h"
#include "core/rng.h"
#include "engine/denoiser.h"
#include "measure/timer.h"

namespace fk {
namespace {

constexpr int64_t kCheckedSteps = 4;                   // of a trajectory
constexpr int64_t kKeptTexts = 8, kKeptRows = 4;       // of a pass: texts, and rows of logits of each
constexpr int64_t kKeptLogits = 256;                   // of a row
constexpr int64_t kNoiseTexts = 4, kNoiseCompany = 4;  // run alone as well, or beside others

using Rows = std::vector<std::vector<float>>;

class DenoiserSide {
 public:
  DenoiserSide(const Model& model, ThreadPool& pool, const SideTask& task, bool first)
      : task_(task),
        first_(first),
        workloads_(eval_workloads(Task::kDiffusionLM, parse_scale(task.pair.scale))),
        model_(model),
        pool_(pool) {
    denoiser_.emplace(model, pool);
    const auto vocabulary = static_cast<uint64_t>(model.config.facts.vocab_size);
    const Stream choice(task.pair.seed, "kept logits");
    for (uint64_t i = 0; i < std::min<uint64_t>(kKeptLogits, vocabulary); ++i)
      columns_.push_back(static_cast<int64_t>(choice.below(i, vocabulary)));
  }

  Json run() {
    if (task_.phase == SidePhase::kReference) return reference();
    if (task_.phase == SidePhase::kScored) return {{"workloads", Json::object()}};  // logits are compared directly
    Json workloads = Json::object(), checks = Json::array();
    if (task_.check_before) checks.push_back({{"when", "before"}, {"workloads", checked()}});
    for (const EvalWorkload& w : workloads_) {
      forward(made_up_steps(w, "warm-up").front());
      Json times = Json::array(), vectors = Json::array();
      for (int64_t i = 0; i < task_.repeats.at(w.name); ++i) {
        const std::vector<EncoderInput> steps = made_up_steps(w, fmt::format("timed {} {}", task_.round, i));
        // Of one step, another one in every pass.
        const Stream choice(task_.pair.seed, fmt::format("kept step {}", i));
        const auto looked_at = static_cast<size_t>(choice.below(0, steps.size()));
        Rows kept;
        double ms = 0;
        for (size_t s = 0; s < steps.size(); ++s) {
          View logits;
          ms += 1e3 * seconds([&] { logits = forward(steps[s]); });
          if (s == looked_at) kept = rows_of(logits, steps[s], i);
        }
        times.push_back(ms);
        vectors.push_back(kept);
      }
      workloads[w.name] = {{"times_ms", times}, {"vectors", vectors}};
    }
    if (task_.check_after) checks.push_back({{"when", "after"}, {"workloads", checked()}});
    return {{"workloads", workloads}, {"checks", checks}};
  }

 private:
  double seconds(const std::function<void()>& work) const {
    if (model_.communicator != nullptr) model_.communicator->barrier();
    Stopwatch watch;
    work();
    return static_cast<double>(watch.elapsed_ns()) * 1e-9;
  }
  View forward(const EncoderInput& input) { return denoiser_->encoder().forward(input).last_hidden_state; }

  int64_t random_token(const Stream& stream, int64_t at) const {
    const ModelFacts& facts = model_.config.facts;
    const auto token =
        static_cast<int64_t>(stream.below(static_cast<uint64_t>(at), static_cast<uint64_t>(facts.vocab_size - 1)));
    return token < facts.mask_id ? token : token + 1;
  }
  Denoiser::Texts prompts(const EvalWorkload& w, const std::string& purpose) const {
    Denoiser::Texts texts;
    for (int64_t i = 0; i < w.batch; ++i) {
      const Stream stream(task_.pair.seed, fmt::format("{} {} {}", w.name, purpose, i));
      std::vector<int64_t>& text = texts.emplace_back();
      for (int64_t t = 0; t < w.input_tokens; ++t) text.push_back(random_token(stream, t));
    }
    return texts;
  }

  // The logits of the current block are wanted.
  EncoderInput input(Denoiser::Texts texts, const EvalWorkload& w, const DenoiseStep& step) const {
    EncoderInput input{.texts = std::move(texts)};
    for (size_t t = 0; t < input.texts.size(); ++t) {
      std::vector<int64_t>& wanted = input.wanted.emplace_back();
      for (int64_t i = 0; i < step.length; ++i) wanted.push_back(w.input_tokens + step.first + i);
    }
    return input;
  }

  // The steps of a text with made-up tokens in the place of drawn ones: the same work on both sides, whatever is drawn.
  std::vector<EncoderInput> made_up_steps(const EvalWorkload& w, const std::string& purpose) const {
    std::vector<EncoderInput> inputs;
    for (const DenoiseStep& step : denoise_steps(denoise_options(w))) {
      Denoiser::Texts texts = prompts(w, purpose);
      for (size_t t = 0; t < texts.size(); ++t) {
        const Stream stream(task_.pair.seed, fmt::format("{} {} output {}", w.name, purpose, t));
        for (int64_t i = 0; i < w.output_tokens; ++i)
          texts[t].push_back(i < step.first + step.known ? random_token(stream, i) : model_.config.facts.mask_id);
      }
      inputs.push_back(input(std::move(texts), w, step));
    }
    return inputs;
  }

  // Some logits of some rows of some texts, others in every pass.
  Rows rows_of(const View& logits, const EncoderInput& input, int64_t pass, int64_t most_texts = kKeptTexts) const {
    Tensor host(logits.spec());
    copy_between(logits, host.view());
    const Stream choice(task_.pair.seed, fmt::format("kept rows {}", pass));
    const int64_t texts = std::ssize(input.texts), kept = std::min(texts, most_texts),
                  block = std::ssize(input.wanted.front());
    Rows rows;
    for (int64_t k = 0; k < kept; ++k)
      for (int64_t r = 0; r < kKeptRows; ++r) {
        const int64_t text = k * texts / kept;
        const auto at =
            static_cast<int64_t>(choice.below(static_cast<uint64_t>(k * kKeptRows + r), static_cast<uint64_t>(block)));
        const float* row = host.ptr<float>() + (text * block + at) * logits.size(1);
        std::vector<float>& values = rows.emplace_back();
        for (int64_t column : columns_) values.push_back(row[column]);
      }
    return rows;
  }

  // The baseline's texts before some of its steps.
  std::vector<EncoderInput> trajectory(const EvalWorkload& w) const {
    const std::string path = reference_path(task_.pair, w.name);
    const std::vector<DenoiseStep> steps = denoise_steps(denoise_options(w));
    std::vector<EncoderInput> inputs;
    for (const Json& one : parse_json_file(path)) {
      const size_t step = one.at("step").get<size_t>();
      auto texts = one.at("texts").get<Denoiser::Texts>();
      if (step >= steps.size() || std::ssize(texts) != w.batch)
        throw Error("The baseline's texts in {} are of another evaluation; delete the folder and start again.",
                    task_.pair.folder);
      inputs.push_back(input(std::move(texts), w, steps[step]));
    }
    return inputs;
  }
  void write_trajectory(const EvalWorkload& w) {
    const int64_t steps = std::ssize(denoise_steps(denoise_options(w)));
    Denoiser::Texts before = prompts(w, "check");
    for (std::vector<int64_t>& text : before)
      text.insert(text.end(), static_cast<size_t>(w.output_tokens), model_.config.facts.mask_id);
    Json kept = Json::array();
    int64_t step = 0;
    auto keep = [&] {
      const int64_t every = std::max<int64_t>(1, steps / kCheckedSteps);
      if (step < steps && step % every == 0 && std::ssize(kept) < kCheckedSteps)
        kept.push_back({{"step", step}, {"texts", before}});
    };
    keep();
    denoiser_->generate(prompts(w, "check"), denoise_options(w), [&](const Denoiser::Texts& texts) {
      before = texts;
      ++step;
      keep();
    });
    if (first_) write_file(reference_path(task_.pair, w.name), dump_json(kept, -1));
  }

  Json checked() {
    Json workloads = Json::object();
    for (const EvalWorkload& w : workloads_) {
      Rows rows;
      for (const EncoderInput& step : trajectory(w))
        for (std::vector<float>& row : rows_of(forward(step), step, -1, w.batch)) rows.push_back(std::move(row));
      workloads[w.name] = {{"vectors", rows}};
    }
    return workloads;
  }

  Json reference() {
    for (const EvalWorkload& w : workloads_) write_trajectory(w);
    if (model_.communicator != nullptr) model_.communicator->barrier();  // the files are written
    Json workloads = checked();
    for (const EvalWorkload& w : workloads_) {
      Json& result = workloads[w.name];
      // The first texts in batches of other sizes give the baseline's own differences.
      Json alone = Json::array();
      size_t first_row = 0;
      for (const EncoderInput& step : trajectory(w)) {
        for (int64_t size = 1; size <= kNoiseTexts; ++size) {
          EncoderInput other{.texts = step.texts, .wanted = step.wanted};
          const auto count = static_cast<size_t>(w.batch == 1 ? size + kNoiseCompany : std::min(size, w.batch));
          other.texts.resize(count, step.texts.front());
          other.wanted.resize(count, step.wanted.front());
          const Rows rows = rows_of(forward(other), other, -1, std::ssize(other.texts));
          const size_t shared = std::min(count, static_cast<size_t>(w.batch)) * static_cast<size_t>(kKeptRows);
          for (size_t r = 0; r < shared; ++r) alone.push_back({{"place", first_row + r}, {"vector", rows[r]}});
        }
        first_row += static_cast<size_t>(w.batch * kKeptRows);
      }
      result["noise_vectors"] = alone;
      double once = 0;
      for (const EncoderInput& step : made_up_steps(w, "first pass")) once += seconds([&] { forward(step); });
      result["repeats"] = repeats_for(once, w.throughput ? 1 : task_.pair.iterations);
    }
    denoiser_.reset();
    RoundingNoise rounding(model_, task_.pair.seed);
    denoiser_.emplace(model_, pool_);
    Json rounded = checked();
    for (const EvalWorkload& w : workloads_) workloads[w.name]["rounding_vectors"] = rounded[w.name]["vectors"];
    return {{"workloads", workloads}};
  }

  const SideTask& task_;
  const bool first_;
  std::vector<EvalWorkload> workloads_;
  const Model& model_;
  ThreadPool& pool_;
  std::optional<Denoiser> denoiser_;
  std::vector<int64_t> columns_;
};

}  // namespace

Json run_denoiser_side(const Model& model, ThreadPool& pool, const SideTask& task, bool first) {
  return DenoiserSide(model, pool, task, first).run();
}

}  // namespace fk
