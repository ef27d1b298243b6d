// One side of an encoder: inputs per second and time of one input; its vectors are compared with the baseline's.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/eval/rounding_noise.h"
#include "bench/eval/side.h"
#include "core/device_runtime.h"
#include "core/rng.h"
#include "engine/encoder.h"
#include "measure/timer.h"

namespace fk {
namespace {

constexpr int64_t kKeptInputs = 8, kKeptVectors = 4;  // of a timed pass: inputs, and vectors of each
constexpr int64_t kNoiseInputs = 4;                   // encoded alone as well

using Vectors = std::vector<std::vector<float>>;

class EncoderSide {
 public:
  EncoderSide(const Model& model, ThreadPool& pool, const SideTask& task)
      : task_(task),
        workloads_(eval_workloads(model.config.facts.task, parse_scale(task.pair.scale))),
        model_(model),
        pool_(pool),
        encoder_(make_encoder(model, pool)) {}

  Json run() {
    if (task_.phase == SidePhase::kReference) return reference();
    if (task_.phase == SidePhase::kScored) return {{"workloads", Json::object()}};  // vectors are compared directly
    Json workloads = Json::object(), checks = Json::array();
    if (task_.check_before) checks.push_back({{"when", "before"}, {"workloads", checked_vectors()}});
    for (const EvalWorkload& w : workloads_) {
      encoder_->forward(input(w, "warm-up", w.batch));
      int64_t count = task_.repeats.at(w.name);
      Json times = Json::array(), vectors = Json::array();
      for (int64_t i = 0; i < count; ++i) {
        EncoderInput in = input(w, fmt::format("timed {} {}", task_.round, i), w.batch);
        Encoded encoded;
        times.push_back(1e3 * seconds([&] { encoded = encoder_->forward(in); }));
        vectors.push_back(kept(encoded, i));
      }
      workloads[w.name] = {{"times_ms", times}, {"vectors", vectors}};
    }
    if (task_.check_after) checks.push_back({{"when", "after"}, {"workloads", checked_vectors()}});
    return {{"workloads", workloads}, {"checks", checks}};
  }

 private:
  EncoderInput input(const EvalWorkload& w, const std::string& purpose, int64_t count) const {
    return encoder_->random_input(count, w.input_tokens, stream_key(task_.pair.seed, w.name + " " + purpose));
  }
  double seconds(const std::function<void()>& work) const {
    if (model_.communicator != nullptr) model_.communicator->barrier();
    Stopwatch watch;
    work();
    return static_cast<double>(watch.elapsed_ns()) * 1e-9;
  }

  // Some vectors of some inputs, others in every pass.
  Vectors kept(const Encoded& encoded, int64_t pass, int64_t most_inputs = kKeptInputs) const {
    Tensor host = on_host(encoded.last_hidden_state), pooled;
    if (encoded.pooler_output) pooled = on_host(*encoded.pooler_output);
    std::vector<int32_t> starts(static_cast<size_t>(encoded.cu_seqlens.size(0)));
    copy_between(encoded.cu_seqlens,
                 View(starts.data(), Shape{static_cast<int64_t>(starts.size())}, encoded.cu_seqlens.dtype()));
    auto inputs = static_cast<int64_t>(starts.size()) - 1;
    Stream choice(task_.pair.seed, fmt::format("kept vectors {}", pass));
    Vectors vectors;
    for (int64_t k = 0; k < std::min(inputs, most_inputs); ++k) {
      auto i = static_cast<size_t>(k * inputs / std::min(inputs, most_inputs));
      int64_t first = starts[i], count = starts[i + 1] - first;
      for (int64_t v = 0; v < kKeptVectors; ++v) {
        auto index = static_cast<uint64_t>(k * kKeptVectors + v);
        int64_t row = first + static_cast<int64_t>(choice.below(index, static_cast<uint64_t>(count)));
        vectors.push_back(row_of(host.view(), row));
      }
      if (encoded.pooler_output) vectors.push_back(row_of(pooled.view(), static_cast<int64_t>(i)));
    }
    return vectors;
  }
  static Tensor on_host(const View& view) {
    Tensor host(view.spec());
    copy_between(view, host.view());
    return host;
  }
  static std::vector<float> row_of(const View& view, int64_t row) {
    std::vector<float> values;
    for (int64_t c = 0; c < view.size(1); ++c) values.push_back(static_cast<float>(get(view, row, c)));
    return values;
  }

  Json checked_vectors() {
    Json workloads = Json::object();
    for (const EvalWorkload& w : workloads_)
      workloads[w.name] = {{"vectors", kept(encoder_->forward(input(w, "check", w.batch)), -1, w.batch)}};
    return workloads;
  }

  Json reference() {
    Json workloads = checked_vectors();
    for (const EvalWorkload& w : workloads_) {
      Json& result = workloads[w.name];
      // The first inputs in batches of other sizes give the baseline's own differences.
      Json alone = Json::array();
      for (int64_t size = 1; size <= kNoiseInputs; ++size) {
        EncoderInput in = input(w, "check", w.batch);
        auto count = static_cast<size_t>(size);
        if (in.size() == 1) {
          if (!in.texts.empty()) in.texts.resize(count + 1, in.texts.front());
          count = in.size();
        }
        if (in.texts.size() > count) in.texts.resize(count);
        while (in.images.size() > count) in.images.pop_back();
        Vectors vectors = kept(encoder_->forward(in), -1, static_cast<int64_t>(in.size()));
        for (size_t v = 0; v < std::min<size_t>(vectors.size(), result["vectors"].size()); ++v)
          alone.push_back({{"place", v}, {"vector", vectors[v]}});
      }
      result["noise_vectors"] = alone;
      EncoderInput first = input(w, "first pass", w.batch);
      result["repeats"] =
          repeats_for(seconds([&] { encoder_->forward(first); }), w.throughput ? 1 : task_.pair.iterations);
    }
    encoder_.reset();
    RoundingNoise rounding(model_, task_.pair.seed);
    encoder_ = make_encoder(model_, pool_);
    Json rounded = checked_vectors();
    for (const EvalWorkload& w : workloads_) workloads[w.name]["rounding_vectors"] = rounded[w.name]["vectors"];
    return {{"workloads", workloads}};
  }

  const SideTask& task_;
  std::vector<EvalWorkload> workloads_;
  const Model& model_;
  ThreadPool& pool_;
  std::unique_ptr<Encoder> encoder_;
};

}  // namespace

Json run_encoder_side(const Model& model, ThreadPool& pool, const SideTask& task, bool) {
  return EncoderSide(model, pool, task).run();
}

}  // namespace fk
