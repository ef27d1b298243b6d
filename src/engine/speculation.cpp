#include "engine/speculation.h"

#include <algorithm>

#include "core/check.h"
#include "core/error.h"
#include "core/json.h"

namespace fk {
namespace {

// More guesses than this cost more than they bring, and each has a row of logits.
constexpr int64_t kMostDrafts = 64;
constexpr int64_t kLongestNgram = 64;

constexpr const char* kSpeculativeFlag = "--speculative-config";
constexpr const char* kNgramMethod = "ngram";
constexpr const char* kDraftMethod = "draft_model";
constexpr const char* kEagle3Method = "eagle3";

int64_t whole_number(const Json& value, const std::string& name) {
  if (!value.is_number_integer()) throw UsageError("{}: {} must be a whole number.", kSpeculativeFlag, name);
  if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX) return INT64_MAX;  // refused by its range
  return value.get<int64_t>();
}

std::string method_name(const Json& value) {
  if (value == kNgramMethod || value == "[ngram]") return kNgramMethod;
  if (value == kDraftMethod) return kDraftMethod;
  if (value == kEagle3Method) return kEagle3Method;
  throw UsageError("{}: the methods are \"ngram\", \"draft_model\" and \"eagle3\", not {}.", kSpeculativeFlag,
                   value.dump());
}

}  // namespace

const char* speculative_method_name(SpeculativeMethod method) {
  switch (method) {
    case SpeculativeMethod::kNgram:
      return kNgramMethod;
    case SpeculativeMethod::kDraftModel:
      return kDraftMethod;
    case SpeculativeMethod::kEagle3:
      return kEagle3Method;
  }
  return "";
}

SpeculativeConfig read_speculative_config(const std::string& text) {
  Json json;
  try {
    json = parse_json(text, kSpeculativeFlag);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& e) {
    throw UsageError("{}", e.what());
  }
  if (!json.is_object())
    throw UsageError(
        "{} must be a JSON object, as {{\"method\": \"ngram\", \"num_speculative_tokens\": 4}} or {{\"model\": "
        "\"./a-small-model\"}}.",
        kSpeculativeFlag);
  SpeculativeConfig config;
  SpeculativeOptions& options = config.options;
  options.num_speculative_tokens = 4;
  bool has_min = false, has_max = false;
  std::string method;
  for (const auto& [name, value] : json.items()) {
    if (name == "method") {
      method = method_name(value);
    } else if (name == "model") {
      if (!value.is_string() || value.get_ref<const std::string&>().empty())
        throw UsageError("{}: model must be a directory or a name, not {}.", kSpeculativeFlag, value.dump());
      config.model = value.get<std::string>();
    } else if (name == "num_speculative_tokens") {
      options.num_speculative_tokens = whole_number(value, name);
      if (options.num_speculative_tokens < 1 || options.num_speculative_tokens > kMostDrafts)
        throw UsageError("{}: num_speculative_tokens must lie between 1 and {}, not be {}.", kSpeculativeFlag,
                         kMostDrafts, options.num_speculative_tokens);
    } else if (name == "prompt_lookup_max") {
      options.prompt_lookup_max = whole_number(value, name);
      has_max = true;
    } else if (name == "prompt_lookup_min") {
      options.prompt_lookup_min = whole_number(value, name);
      has_min = true;
    } else {
      throw UsageError(
          "{} has no field \"{}\"; it has method, model, num_speculative_tokens, prompt_lookup_max and "
          "prompt_lookup_min.",
          kSpeculativeFlag, name);
    }
  }
  if (method.empty()) method = config.model.empty() ? kNgramMethod : kDraftMethod;
  if (method != kNgramMethod) {
    if (config.model.empty())
      throw UsageError("{}: the method \"{}\" needs the field \"model\", a directory or a name.", kSpeculativeFlag,
                       method);
    if (has_min || has_max)
      throw UsageError("{}: {} is for the method \"ngram\"; leave it out, or leave model out.", kSpeculativeFlag,
                       has_max ? "prompt_lookup_max" : "prompt_lookup_min");
    options.method = method == kEagle3Method ? SpeculativeMethod::kEagle3 : SpeculativeMethod::kDraftModel;
  } else if (!config.model.empty()) {
    throw UsageError("{}: the method \"ngram\" has no model; leave one of them out.", kSpeculativeFlag);
  }
  // As vLLM: of one, the other is the same.
  if (has_min && !has_max) options.prompt_lookup_max = options.prompt_lookup_min;
  if (has_max && !has_min) options.prompt_lookup_min = options.prompt_lookup_max;
  check_speculative_options(options);
  return config;
}

void check_speculative_options(const SpeculativeOptions& o) {
  auto between = [](int64_t value, const char* name, int64_t least, int64_t most) {
    if (value < least || value > most)
      throw UsageError("{}: {} must lie between {} and {}, not be {}.", kSpeculativeFlag, name, least, most, value);
  };
  between(o.num_speculative_tokens, "num_speculative_tokens", 0, kMostDrafts);
  between(o.prompt_lookup_max, "prompt_lookup_max", 1, kLongestNgram);
  between(o.prompt_lookup_min, "prompt_lookup_min", 1, kLongestNgram);
  if (o.prompt_lookup_min > o.prompt_lookup_max)
    throw UsageError("{}: prompt_lookup_min {} is more than prompt_lookup_max {}; lower it.", kSpeculativeFlag,
                     o.prompt_lookup_min, o.prompt_lookup_max);
}

size_t tokens_kept(std::span<const int64_t> drafts, std::span<const int64_t> drawn) {
  FK_CHECK(drawn.size() == drafts.size() + 1);
  auto [draft, token] = std::mismatch(drafts.begin(), drafts.end(), drawn.begin());
  return static_cast<size_t>(draft - drafts.begin()) + 1;
}

}  // namespace fk
