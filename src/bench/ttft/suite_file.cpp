#include "bench/ttft/suite_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "core/closest.h"
#include "core/error.h"
#include "core/input_file.h"
#include "models/unicode.h"

namespace fk {

const std::vector<std::string>& all_paths() {
  static const std::vector<std::string> paths = {kPathEager, kPathCompiled, kPathCandidate, kPathHf, kPathTorchCompile};
  return paths;
}

namespace {

constexpr size_t kLargestSuite = 1 << 20;  // bytes; refuses what is no suite

class SuiteReader {
 public:
  explicit SuiteReader(std::string path) : path_(std::move(path)) {}

  std::vector<SuiteConfig> read(const YAML::Node& root) const {
    if (!root.IsMap()) fail(root, "a suite is a map with the key 'configs', a list of configurations");
    SuiteConfig defaults;
    YAML::Node configs;
    std::set<std::string> seen;
    for (const auto& item : root) {
      const std::string key = key_of(item.first, seen);
      if (key == "defaults")
        set_all(defaults, item.second, true);
      else if (key == "configs")
        configs.reset(item.second);
      else
        fail(item.first, "a suite has no key '{}'{} the keys are defaults and configs", key,
             did_you_mean(key, std::vector<std::string>{"defaults", "configs"}));
    }
    if (!seen.contains("configs")) fail(root, "a suite needs the key 'configs', a list of configurations");
    if (!configs.IsSequence() || configs.size() == 0) fail(configs, "configs must be a list of configurations");
    std::vector<SuiteConfig> result;
    for (const YAML::Node& node : configs) {
      SuiteConfig config = defaults;
      set_all(config, node, false);
      if (config.model.empty()) fail(node, "a configuration needs a model");
      if (!config.prompt_ids.empty() && config.batch_size != 1)
        fail(node, "prompt_ids is one prompt; leave batch_size out");
      if (config.name.empty()) config.name = config.model;
      if (std::any_of(result.begin(), result.end(), [&](const SuiteConfig& c) { return c.name == config.name; }))
        fail(node, "the name '{}' is taken by a configuration above; give this one another with `name:`", config.name);
      result.push_back(std::move(config));
    }
    return result;
  }

 private:
  template <class... A>
  [[noreturn]] void fail(const YAML::Node& node, fmt::format_string<A...> format, A&&... args) const {
    throw UsageError("{}:{}: {}.", path_, std::max(node.Mark().line + 1, 1),
                     fmt::format(format, std::forward<A>(args)...));
  }

  std::string key_of(const YAML::Node& node, std::set<std::string>& seen) const {
    if (!node.IsScalar()) fail(node, "a key must be a word");
    if (!seen.insert(node.Scalar()).second) fail(node, "the key '{}' is there twice", node.Scalar());
    return node.Scalar();
  }

  std::string word(const YAML::Node& node, const std::string& key) const {
    if (!node.IsScalar() || node.Scalar().empty()) fail(node, "{} must be a word", key);
    // A zero byte would end an argument of a row, and a line break a line of a table.
    if (std::any_of(node.Scalar().begin(), node.Scalar().end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }))
      fail(node, "{} must not hold control characters", key);
    return node.Scalar();
  }
  int64_t whole(const YAML::Node& node, const std::string& key, int64_t least) const {
    constexpr int64_t kMost = int64_t{1} << 24;
    int64_t value = 0;
    if (!node.IsScalar() || !YAML::convert<int64_t>::decode(node, value)) fail(node, "{} must be a whole number", key);
    if (value < least || value > kMost) fail(node, "{} must be from {} to {}", key, least, kMost);
    return value;
  }
  double seconds(const YAML::Node& node, const std::string& key) const {
    double value = 0;
    if (!node.IsScalar() || !YAML::convert<double>::decode(node, value) || !(value >= 0 && value <= 1e6))
      fail(node, "{} must be a number of seconds from 0 to 1000000", key);
    return value;
  }
  bool truth(const YAML::Node& node, const std::string& key) const {
    bool value = false;
    if (!node.IsScalar() || !YAML::convert<bool>::decode(node, value)) fail(node, "{} must be true or false", key);
    return value;
  }
  std::string one_of(const YAML::Node& node, const std::string& key, const std::vector<std::string>& known) const {
    std::string value = word(node, key);
    if (std::find(known.begin(), known.end(), value) == known.end())
      fail(node, "{} cannot be '{}'{} known are {}", key, value, did_you_mean(value, known), fmt::join(known, ", "));
    return value;
  }
  template <class Read>
  auto list(const YAML::Node& node, const std::string& key, const Read& read) const {
    if (!node.IsSequence() || node.size() == 0) fail(node, "{} must be a list in [ ]", key);
    std::vector<decltype(read(node))> values;
    for (const YAML::Node& item : node) values.push_back(read(item));
    return values;
  }

  // [hf, torch_compile], or {hf: why}.
  std::map<std::string, std::string> skipped(const YAML::Node& node, const std::string& key) const {
    std::map<std::string, std::string> result;
    if (node.IsMap()) {
      std::set<std::string> seen;
      for (const auto& item : node) {
        key_of(item.first, seen);
        result[one_of(item.first, key, all_paths())] = word(item.second, key);
      }
    } else if (node.IsSequence()) {
      for (const YAML::Node& item : node) result[one_of(item, key, all_paths())] = "the suite skips it";
    } else {
      fail(node, "skip must be a list of paths in [ ], or a map from a path to the reason");
    }
    return result;
  }

  using Setter = std::function<void(SuiteConfig&, const YAML::Node&, const std::string&)>;
  std::map<std::string, Setter> setters() const {
    auto set_whole = [this](int64_t SuiteConfig::*field, int64_t least) -> Setter {
      return [=, this](SuiteConfig& c, const YAML::Node& n, const std::string& k) { c.*field = whole(n, k, least); };
    };
    auto set_truth = [this](bool SuiteConfig::*field) -> Setter {
      return [=, this](SuiteConfig& c, const YAML::Node& n, const std::string& k) { c.*field = truth(n, k); };
    };
    auto set_word = [this](std::string SuiteConfig::*field) -> Setter {
      return [=, this](SuiteConfig& c, const YAML::Node& n, const std::string& k) { c.*field = word(n, k); };
    };
    auto set_choice = [this](std::string SuiteConfig::*field, const std::vector<std::string>& known) -> Setter {
      return [=, this](SuiteConfig& c, const YAML::Node& n, const std::string& k) { c.*field = one_of(n, k, known); };
    };
    auto set_seconds = [this](double SuiteConfig::*field) -> Setter {
      return [=, this](SuiteConfig& c, const YAML::Node& n, const std::string& k) { c.*field = seconds(n, k); };
    };
    return {
        {"name", set_word(&SuiteConfig::name)},
        {"model", set_word(&SuiteConfig::model)},
        {"device", set_word(&SuiteConfig::device)},
        {"quantization", set_word(&SuiteConfig::quantization)},
        {"load_format", set_choice(&SuiteConfig::load_format, {"auto", "dummy"})},
        {"dtype", set_choice(&SuiteConfig::dtype, {"auto", "bf16", "f16", "f32"})},
        {"threads", set_whole(&SuiteConfig::threads, 1)},
        {"weight_seed", set_whole(&SuiteConfig::weight_seed, 0)},
        {"prompt_tokens", set_whole(&SuiteConfig::prompt_tokens, 1)},
        {"decode_tokens", set_whole(&SuiteConfig::decode_tokens, 2)},
        {"batch_size", set_whole(&SuiteConfig::batch_size, 1)},
        {"iterations", set_whole(&SuiteConfig::iterations, 1)},
        {"warmups", set_whole(&SuiteConfig::warmups, 0)},
        {"sequential", set_truth(&SuiteConfig::sequential)},
        {"generated_kernels", set_truth(&SuiteConfig::generated_kernels)},
        {"warm_search", set_truth(&SuiteConfig::warm_search)},
        {"compile_prefill", set_truth(&SuiteConfig::compile_prefill)},
        {"settle_seconds", set_seconds(&SuiteConfig::settle_seconds)},
        {"limit_seconds", set_seconds(&SuiteConfig::limit_seconds)},
        {"search_budget",
         [this](SuiteConfig& c, const YAML::Node& n, const std::string& k) { c.search_budget = whole(n, k, 1); }},
        {"sweep_budgets",
         [this](SuiteConfig& c, const YAML::Node& n, const std::string& k) {
           c.sweep_budgets = list(n, k, [&](const YAML::Node& item) { return whole(item, k, 1); });
           std::sort(c.sweep_budgets.begin(), c.sweep_budgets.end());
         }},
        {"prompt_ids",
         [this](SuiteConfig& c, const YAML::Node& n, const std::string& k) {
           constexpr size_t kMostIds = 32768;  // they are arguments of a process
           c.prompt_ids = list(n, k, [&](const YAML::Node& item) { return whole(item, k, 0); });
           if (c.prompt_ids.size() > kMostIds) fail(n, "prompt_ids holds more than {} tokens", kMostIds);
         }},
        {"paths",
         [this](SuiteConfig& c, const YAML::Node& n, const std::string& k) {
           c.paths = list(n, k, [&](const YAML::Node& item) { return one_of(item, k, all_paths()); });
           if (std::set<std::string>(c.paths.begin(), c.paths.end()).size() != c.paths.size())
             fail(n, "paths names one path twice");
         }},
        {"skip", [this](SuiteConfig& c, const YAML::Node& n, const std::string& k) { c.skip = skipped(n, k); }},
    };
  }

  void set_all(SuiteConfig& config, const YAML::Node& node, bool defaults) const {
    const std::map<std::string, Setter> known = setters();
    if (!node.IsMap()) fail(node, "{} must be a map", defaults ? "defaults" : "a configuration");
    std::set<std::string> seen;
    for (const auto& item : node) {
      const std::string key = key_of(item.first, seen);
      auto setter = known.find(key);
      if (setter == known.end()) {
        std::vector<std::string> names;
        for (const auto& [name, value] : known) names.push_back(name);
        fail(item.first, "a configuration has no key '{}'{} the keys are {}", key, did_you_mean(key, names),
             fmt::join(names, ", "));
      }
      if (defaults && (key == "name" || key == "model"))
        fail(item.first, "{} belongs to one configuration; write it under configs", key);
      setter->second(config, item.second, key);
    }
    if (seen.contains("prompt_ids")) {
      if (seen.contains("prompt_tokens")) fail(node, "prompt_ids is the prompt itself; leave prompt_tokens out");
      config.prompt_tokens = static_cast<int64_t>(config.prompt_ids.size());
    } else if (seen.contains("prompt_tokens")) {
      config.prompt_ids.clear();
    }
  }

  std::string path_;
};

}  // namespace

std::vector<SuiteConfig> parse_suite(std::string_view text, const std::string& path) {
  if (unicode::repair_utf8(text) != text) throw UsageError("{} is not UTF-8; save it in that encoding.", path);
  try {
    std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() > 1) throw UsageError("{} holds several YAML documents; leave one.", path);
    return SuiteReader(path).read(documents.empty() ? YAML::Node() : documents[0]);
  } catch (const YAML::Exception& e) {
    throw UsageError("{}:{}: this is no YAML ({}).", path, e.mark.line + 1, e.msg);
  }
}

std::vector<SuiteConfig> read_suite(const std::string& path) {
  return parse_suite(read_file(path, fmt::format("The suite {}", path), "; --suite names a YAML file", kLargestSuite),
                     path);
}

}  // namespace fk
