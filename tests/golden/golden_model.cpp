#include "tests/golden/golden_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "models/config.h"

namespace fk::golden {
namespace {

const std::string kData = FK_SOURCE_DIR "/tests/golden/data/";

template <class T>
T member(const Json& json, const char* key) {
  return json.contains(key) ? json.at(key).get<T>() : T{};
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kData))
    if (entry.path().stem() != "philox") names.push_back(entry.path().stem());
  std::sort(names.begin(), names.end());
  return names;
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

Model Golden::load(DType dtype, ThreadPool& pool) const {
  return load_model(source, {.format = LoadFormat::kDummy, .dtype = dtype, .seed = seed}, pool);
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

std::vector<std::vector<float>> run_batched(ModelExecutor& executor, const std::vector<std::vector<int64_t>>& prompts) {
  std::vector<RunningSequence> sequences(prompts.size());
  std::vector<NewTokens> items;
  for (size_t i = 0; i < prompts.size(); ++i) items.push_back({&sequences[i], prompts[i]});
  View logits = executor.forward(items);
  std::vector<std::vector<float>> rows;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const float* row = logits.ptr<float>() + static_cast<int64_t>(i) * logits.size(1);
    rows.emplace_back(row, row + logits.size(1));
    executor.finish(sequences[i]);
  }
  return rows;
}

std::vector<float> run_alone(ModelExecutor& executor, const std::vector<int64_t>& prompt) {
  RunningSequence sequence = executor.start();
  View logits = executor.prefill(sequence, prompt);
  executor.finish(sequence);
  return {logits.ptr<float>(), logits.ptr<float>() + logits.size(1)};
}

}  // namespace fk::golden
