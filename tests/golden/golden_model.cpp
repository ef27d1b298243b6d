#include "tests/golden/golden_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "core/device_runtime.h"
#include "models/config.h"
#include "ops/registry.h"

namespace fk::golden {
namespace {

template <class T>
T member(const Json& json, const char* key) {
  return json.contains(key) ? json.at(key).get<T>() : T{};
}

}  // namespace

bool has_cuda_backend() {
  for (const OperatorInfo* info : Registry::instance().operators())
    for (const ImplementationInfo& i : info->implementations)
      if (!i.any_device && i.device == DeviceKind::kCuda) return true;
  return false;
}

std::vector<Subject> subjects(const std::string& folder) {
  std::vector<Subject> list;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().stem() == "philox") continue;
    list.push_back({entry.path().stem()});
    if (has_cuda_backend()) list.push_back({entry.path().stem(), {DeviceKind::kCuda, 0}});
  }
  std::sort(list.begin(), list.end(), [](const Subject& a, const Subject& b) {
    return std::pair(a.device.kind, a.model) < std::pair(b.device.kind, b.model);
  });
  return list;
}

std::string subject_name(const Subject& subject) {
  std::string name = subject.model + (subject.device == kCpu ? "" : "_on_cuda");
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

Golden::Golden(const std::string& name) {
  Json json = parse_json_file(kData + name + ".json");
  source.name = name;
  source.config = config_from_json(json.at("config"), name);
  seed = json.at("seed");
  largest_bf16_error = json.at("bf16").at("largest_error");
  largest_f16_error = json.at("f16").at("largest_error_f32_weights");
  for (const Json& c : json.at("cases"))
    cases.push_back({c.at("name"), c.at("prompts"), c.at("logits"),
                     member<std::vector<std::vector<int64_t>>>(c, "argmax"),
                     member<std::vector<std::vector<double>>>(c, "max_logit"),
                     member<std::vector<std::vector<double>>>(c, "logits_bf16_weights"),
                     member<std::vector<std::vector<int64_t>>>(c, "tokens")});
}

Model Golden::load(DType dtype, ThreadPool& pool, Device device) const {
  return load_model(source, {.format = LoadFormat::kDummy, .dtype = dtype, .seed = seed, .device = device}, pool);
}

const Case* Golden::find(const std::string& case_name) const {
  for (const Case& c : cases)
    if (c.name == case_name) return &c;
  return nullptr;
}

double relative_error(const std::vector<double>& expected, const float* actual) {
  double largest = 0, error = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(actual[i])) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::fabs(expected[i]));
    error = std::max(error, std::fabs(expected[i] - actual[i]));
  }
  return error / largest;
}

std::vector<float> on_host(const View& logits) {
  std::vector<float> values(static_cast<size_t>(logits.numel()));
  copy_between(logits, View(values.data(), logits.spec()));
  return values;
}

std::vector<std::vector<float>> run_batched(ModelExecutor& executor, const std::vector<std::vector<int64_t>>& prompts) {
  std::vector<RunningSequence> sequences(prompts.size());
  std::vector<NewTokens> items;
  for (size_t i = 0; i < prompts.size(); ++i) items.push_back({&sequences[i], prompts[i]});
  View logits = executor.forward(items);
  std::vector<std::vector<float>> rows;
  for (size_t i = 0; i < prompts.size(); ++i) {
    rows.push_back(on_host(logits.narrow(0, static_cast<int64_t>(i), 1)));
    executor.finish(sequences[i]);
  }
  return rows;
}

std::vector<float> run_alone(ModelExecutor& executor, const std::vector<int64_t>& prompt) {
  RunningSequence sequence = executor.start();
  std::vector<float> logits = on_host(executor.prefill(sequence, prompt));
  executor.finish(sequence);
  return logits;
}

}  // namespace fk::golden
