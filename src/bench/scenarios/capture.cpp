#include "bench/scenarios/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "bench/scenarios/name_calls.h"
#include "bench/scenarios/recorder.h"
#include "bench/scenarios/scenario_file.h"
#include "core/error.h"
#include "engine/finite_logits.h"
#include "engine/model_executor.h"
#include "engine/sampler.h"
#include "models/safetensors_writer.h"

namespace fk {
namespace {

// All prompts in one pass, as in an engine that has just received them; then all sequences token by token.
void run_language_model(const Model& model, ThreadPool& pool, const CaptureOptions& options, CallObserver& observer) {
  auto count = options.inputs.texts.size();
  int64_t longest = 0, tokens = 0;
  for (const auto& prompt : options.inputs.texts) {
    if (prompt.empty()) throw Error("A prompt has no tokens; give at least one.");
    longest = std::max(longest, static_cast<int64_t>(prompt.size()));
    tokens += static_cast<int64_t>(prompt.size());
  }
  ModelExecutor executor(model, pool,
                         {.max_sequences = static_cast<int64_t>(count),
                          .max_context = longest + options.decode_tokens,
                          .max_step_tokens = tokens});
  Sampler sampler(static_cast<int64_t>(count), {});
  executor.observe(&observer);
  std::vector<RunningSequence> sequences(count);
  for (RunningSequence& s : sequences) s = executor.start();
  std::vector<std::vector<int64_t>> next = options.inputs.texts;
  const std::vector<SamplingParams> greedy(count);
  for (int64_t step = 0; step <= options.decode_tokens; ++step) {
    std::vector<NewTokens> items;
    for (size_t i = 0; i < count; ++i) items.push_back({&sequences[i], next[i]});
    View logits = executor.forward(items);
    require_finite_logits(model, logits);
    Context ctx = executor.context();
    std::span<const int64_t> picked = sampler.pick(ctx, logits, greedy, std::vector<int64_t>(count, step));
    for (size_t i = 0; i < count; ++i) next[i] = {picked[i]};
  }
}

void run(const Model& model, ThreadPool& pool, const CaptureOptions& options, CallObserver& observer) {
  if (model.config.facts.task == Task::kCausalLM) return run_language_model(model, pool, options, observer);
  std::unique_ptr<Encoder> encoder = make_encoder(model, pool);
  encoder->observe(&observer);
  Encoded encoded = encoder->forward(options.inputs);
  require_finite(model, encoded.last_hidden_state, "vectors");
}

int64_t write_golden(std::vector<RecordedCall>& calls, const std::string& path) {
  std::vector<std::pair<std::string, View>> tensors;
  for (RecordedCall& call : calls) {
    Scenario& s = call.scenario;
    auto add = [&](const std::string& what, const Tensor& tensor) {
      tensors.emplace_back(fmt::format("{}/{}/{}", s.op, s.name, what), tensor);
      return path + "#" + tensors.back().first;
    };
    if (call.block_table.view().data() != nullptr) s.block_table = add("block table", call.block_table);
    for (const auto& golden : call.golden) {
      const std::string& argument = golden.first;
      auto o = std::find_if(s.overrides.begin(), s.overrides.end(),
                            [&](const ArgumentOverride& known) { return known.name == argument; });
      if (o == s.overrides.end()) o = s.overrides.insert(o, {.name = argument});
      o->golden = add(argument, golden.second);
    }
  }
  write_safetensors(path, tensors);
  return static_cast<int64_t>(tensors.size());
}

}  // namespace

Capture capture_to_file(const Model& model, ThreadPool& pool, const CaptureOptions& options, const std::string& path) {
  CallRecorder recorder(options.golden);
  run(model, pool, options, recorder);
  std::vector<RecordedCall>& calls = recorder.calls();
  std::string name = name_part(std::filesystem::path(model.name).filename().string());
  name_calls(calls, fmt::format("{}/tp{}", name, model.config.facts.tp_size));
  Capture capture;
  capture.unmatched = recorder.unmatched();
  if (options.golden)
    capture.tensors = write_golden(calls, std::filesystem::path(path).replace_extension(".safetensors").string());
  for (RecordedCall& call : calls) {
    call.scenario.models = {name};
    call.scenario.tp = model.config.facts.tp_size;
    capture.scenarios.push_back(std::move(call.scenario));
  }
  std::stable_sort(capture.scenarios.begin(), capture.scenarios.end(), [](const Scenario& a, const Scenario& b) {
    return std::pair(a.info().level, a.op) < std::pair(b.info().level, b.op);
  });
  write_scenarios(capture.scenarios, path);
  return capture;
}

}  // namespace fk
