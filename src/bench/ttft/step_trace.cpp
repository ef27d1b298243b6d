#include "bench/ttft/step_trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/device_runtime.h"
#include "engine/decode_loop.h"
#include "engine/encoder.h"
#include "measure/timer.h"
#include "ops/registry.h"

namespace fk {
namespace {

std::string shapes_text(std::span<const View> views) {
  std::string text;
  for (const View& v : views) text += fmt::format("{}{}", text.empty() ? "" : ", ", v.str());
  return text;
}

std::string shapes_text(const OperatorInfo& info, std::span<const OptView> args) {
  std::string text;
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i]) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", info.args[i].name, args[i]->str());
  return text;
}

}  // namespace

size_t StepTrace::open(Span span) {
  span.depth = open_.size();
  open_.push_back(spans_.size());
  spans_.push_back(std::move(span));
  spans_.back().begin_ns = now_ns();
  return spans_.size() - 1;
}

void StepTrace::close() {
  spans_[open_.back()].end_ns = now_ns();
  open_.pop_back();
}

void StepTrace::begin(std::string name) { open({.name = std::move(name), .kind = "pass"}); }
void StepTrace::end() { close(); }

bool StepTrace::before_call(const Node& node, const Context&, std::span<const OptView> args) {
  open({.name = std::string(node.info().name),
        .kind = "call",
        .path = node.path(),
        .shapes = shapes_text(node.info(), args),
        .level = node.info().level});
  return true;
}

void StepTrace::after_call(const Node& node, std::string_view implementation) {
  spans_[open_.back()].implementation = implementation;
  for (const ImplementationInfo* info : node.implementations())
    if (info->name == implementation && info->device != DeviceKind::kCpu && !info->any_device)
      device_runtime(Device{info->device, 0}).synchronize();
  close();
}

void StepTrace::before_region(std::string_view name, std::string_view path, std::span<const View> inputs,
                              std::span<const View> outputs) {
  open({.name = std::string(name),
        .kind = "region",
        .path = std::string(path),
        .shapes = shapes_text(inputs) + " -> " + shapes_text(outputs)});
  region_device_ = outputs.empty() ? kCpu : outputs.front().device();
}

void StepTrace::after_region() {
  if (region_device_ != kCpu) device_runtime(region_device_).synchronize();
  close();
}

namespace {

constexpr double kNsPerUs = 1e3;

}  // namespace

Json StepTrace::steps() const {
  Json passes = Json::array();
  for (const Span& s : spans_) {
    if (s.depth == 0) passes.push_back({{"pass", s.name}, {"steps", Json::array()}});
    if (s.depth != 1 || passes.empty()) continue;
    passes.back()["steps"].push_back({{"kind", s.kind},
                                      {"name", s.name},
                                      {"path", s.path},
                                      {"implementation", s.implementation},
                                      {"us", static_cast<double>(s.end_ns - s.begin_ns) / kNsPerUs}});
  }
  if (passes.size() > 2) passes.erase(passes.begin() + 1, passes.end() - 1);
  return passes;
}

Json StepTrace::to_json(const std::string& title) const {
  Json events = Json::array();
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", 1}, {"tid", 1}, {"args", {{"name", title}}}});
  const int64_t start = spans_.empty() ? 0 : spans_.front().begin_ns;
  for (const Span& s : spans_) {
    Json args = Json::object();
    if (!s.path.empty()) args["path"] = s.path;
    if (s.level > 0) args["level"] = s.level;
    if (!s.implementation.empty()) args["implementation"] = s.implementation;
    if (!s.shapes.empty()) args["shapes"] = s.shapes;
    events.push_back({{"name", s.name},
                      {"cat", s.kind},
                      {"ph", "X"},
                      {"ts", static_cast<double>(s.begin_ns - start) / kNsPerUs},
                      {"dur", static_cast<double>(s.end_ns - s.begin_ns) / kNsPerUs},
                      {"pid", 1},
                      {"tid", 1},
                      {"args", args}});
  }
  return {{"traceEvents", events}, {"displayTimeUnit", "ns"}};
}

namespace {

void trace_encoder(const Model& model, ThreadPool& pool, const TtftOptions& options, StepTrace& trace) {
  std::unique_ptr<Encoder> encoder = make_encoder(model, pool);
  const EncoderInput input = encoder->random_input(options.batch_size, options.prompt_tokens, options.seed);
  encoder->forward(input);
  encoder->observe(&trace);
  trace.begin(fmt::format("{} {}{}", options.batch_size, encoder->noun(), options.batch_size == 1 ? "" : "s"));
  encoder->forward(input);
  trace.end();
  encoder->observe(nullptr);
}

void trace_causal(const Model& model, ThreadPool& pool, const TtftOptions& options, int64_t steps, StepTrace& trace) {
  ModelExecutor executor(model, pool,
                         {.max_sequences = options.batch_size,
                          .max_context = options.prompt_tokens + options.decode_tokens,
                          .max_step_tokens = options.prompt_tokens * options.batch_size});
  DecodeLoop loop(executor, options.batch_size);
  const std::vector<std::vector<int64_t>> prompts = random_prompts(options, 0, model.config.facts.vocab_size);
  steps = std::min(steps, options.decode_tokens);
  for (bool traced : {false, true}) {
    std::vector<RunningSequence> sequences(prompts.size());
    std::vector<NewTokens> items;
    std::vector<RunningSequence*> all;
    std::vector<int64_t> first;
    for (size_t i = 0; i < prompts.size(); ++i) {
      sequences[i] = executor.start();
      items.push_back({&sequences[i], prompts[i]});
      all.push_back(&sequences[i]);
      first.push_back(prompts[i][0]);
    }
    auto pass = [&](const std::string& name, const auto& work) {
      executor.observe(traced ? &trace : nullptr);
      if (traced) trace.begin(name);
      work();
      executor.wait();
      if (traced) trace.end();
      executor.observe(nullptr);
    };
    pass(fmt::format("prefill of {} tokens", options.prompt_tokens * options.batch_size),
         [&] { executor.forward(items); });
    loop.start(all, first, std::vector<SamplingParams>(all.size()), std::vector<int64_t>(all.size()), steps);
    for (int64_t i = 0; i < steps; ++i) pass(fmt::format("decode step {}", i + 1), [&] { loop.step(); });
    for (RunningSequence& sequence : sequences) executor.finish(sequence);
  }
}

}  // namespace

void trace_passes(const Model& model, ThreadPool& pool, const TtftOptions& options, int64_t steps, StepTrace& trace) {
  if (is_stateless(model.config.facts.task))
    trace_encoder(model, pool, options, trace);
  else
    trace_causal(model, pool, options, steps, trace);
}

}  // namespace fk
