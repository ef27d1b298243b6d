#include "bench/e2e/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bench/e2e/dataset_file.h"
#include "core/error.h"
#include "core/rng.h"
#include "models/tokenizer.h"

namespace fk {
namespace {

// DrawnNumbers of one stream, one after the other.
class DrawnNumbers {
 public:
  DrawnNumbers(uint64_t seed, std::string_view name) : stream_(seed, name) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(stream_.below(at_++, static_cast<uint64_t>(n))); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  std::vector<int64_t> tokens(int64_t count, int64_t vocab_size) {
    std::vector<int64_t> list;
    for (int64_t i = 0; i < count; ++i) list.push_back(below(vocab_size));
    return list;
  }
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i)
      std::swap(list[i - 1], list[static_cast<size_t>(below(static_cast<int64_t>(i)))]);
  }

 private:
  Stream stream_;
  uint64_t at_ = 0;
};

void need_vocabulary(const PromptTokens& tokens, const std::string& dataset) {
  if (tokens.vocab_size < 1)
    throw UsageError("The {} dataset is made of token ids and needs the size of the vocabulary; give a --tokenizer.",
                     dataset);
}

void set_text(BenchRequest& request, const PromptTokens& tokens) {
  if (tokens.tokenizer == nullptr) return;
  std::vector<int32_t> ids(request.prompt_tokens.begin(), request.prompt_tokens.end());
  request.prompt = tokens.tokenizer->decode(ids, false);
}

std::vector<BenchRequest> random_requests(const DatasetOptions& o, const PromptTokens& tokens) {
  need_vocabulary(tokens, o.name);
  if (!(o.random_range_ratio >= 0 && o.random_range_ratio < 1))
    throw UsageError("--random-range-ratio must be at least 0 and below 1, not {}.", o.random_range_ratio);
  if (o.random_input_len + o.random_prefix_len < 1)
    throw UsageError("--random-input-len and --random-prefix-len are both 0; a prompt has at least one token.");
  auto low = [&](int64_t n) {
    return static_cast<int64_t>(std::floor(static_cast<double>(n) * (1 - o.random_range_ratio)));
  };
  auto high = [&](int64_t n) {
    return static_cast<int64_t>(std::ceil(static_cast<double>(n) * (1 + o.random_range_ratio)));
  };
  DrawnNumbers lengths(o.seed, "random lengths"), ids(o.seed, "random tokens"), prefixes(o.seed, "random prefix");
  std::vector<int64_t> prefix = prefixes.tokens(o.random_prefix_len, tokens.vocab_size);
  int64_t least_input = std::max<int64_t>(low(o.random_input_len), prefix.empty() ? 1 : 0);
  std::vector<BenchRequest> requests;
  for (int64_t i = 0; i < o.num_prompts; ++i) {
    BenchRequest request;
    int64_t input = lengths.between(least_input, std::max(least_input, high(o.random_input_len)));
    int64_t least_output = std::max<int64_t>(1, low(o.random_output_len));
    request.output_len = lengths.between(least_output, std::max(least_output, high(o.random_output_len)));
    request.prompt_tokens = prefix;
    // Every token on its own: of counting sequences there are only as many as tokens, and a prefix cache has them soon.
    std::vector<int64_t> own = ids.tokens(input, tokens.vocab_size);
    request.prompt_tokens.insert(request.prompt_tokens.end(), own.begin(), own.end());
    set_text(request, tokens);
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<BenchRequest> prefix_requests(const DatasetOptions& o, const PromptTokens& tokens) {
  need_vocabulary(tokens, o.name);
  if (o.num_prefixes > o.num_prompts)
    throw UsageError("--prefix-repetition-num-prefixes is {}, more than the {} prompts; every prefix needs one.",
                     o.num_prefixes, o.num_prompts);
  if (o.prefix_len + o.suffix_len < 1)
    throw UsageError("The prefix and the suffix both have 0 tokens; a prompt has at least one token.");
  DrawnNumbers numbers(o.seed, "prefix repetition");
  std::vector<std::vector<int64_t>> prefixes;
  for (int64_t i = 0; i < o.num_prefixes; ++i) prefixes.push_back(numbers.tokens(o.prefix_len, tokens.vocab_size));
  std::vector<BenchRequest> requests;
  for (int64_t i = 0; i < o.num_prompts; ++i) {
    BenchRequest request;
    request.prompt_tokens = prefixes[static_cast<size_t>(i % o.num_prefixes)];
    std::vector<int64_t> suffix = numbers.tokens(o.suffix_len, tokens.vocab_size);
    request.prompt_tokens.insert(request.prompt_tokens.end(), suffix.begin(), suffix.end());
    request.output_len = o.prefix_output_len;
    set_text(request, tokens);
    requests.push_back(std::move(request));
  }
  numbers.shuffle(requests);
  return requests;
}

int64_t count_of(const std::vector<int64_t>& ids) { return static_cast<int64_t>(ids.size()); }

// The limits of vLLM's benchmark: very short turns tell nothing, and very long ones do not fit small contexts.
bool usable_turns(int64_t prompt, int64_t output, bool output_is_given) {
  constexpr int64_t kLeast = 4, kMostPrompt = 1024, kMostTotal = 2048;
  return prompt >= kLeast && (output_is_given || output >= kLeast) && prompt <= kMostPrompt &&
         prompt + output <= kMostTotal;
}

std::vector<BenchRequest> file_requests(const DatasetOptions& o, const PromptTokens& tokens) {
  if (o.path.empty()) throw UsageError("The {} dataset is a file; give it with --dataset-path.", o.name);
  const bool sharegpt = o.name == "sharegpt", counts = tokens.tokenizer != nullptr || tokens.bytes_are_tokens;
  if (sharegpt && !counts && o.sharegpt_output_len == 0)
    throw UsageError(
        "The answers of a sharegpt file are counted in tokens; give --tokenizer or --sharegpt-output-len.");
  std::vector<FilePrompt> prompts = sharegpt ? read_sharegpt(o.path) : read_custom_jsonl(o.path);
  if (sharegpt) DrawnNumbers(o.seed, "sharegpt order").shuffle(prompts);
  std::vector<BenchRequest> requests;
  for (const FilePrompt& from : prompts) {
    if (static_cast<int64_t>(requests.size()) == o.num_prompts) break;
    BenchRequest request;
    request.prompt = from.prompt;
    if (counts) request.prompt_tokens = text_tokens(from.prompt, tokens);
    request.output_len = from.output_tokens;
    if (sharegpt) {
      request.output_len =
          o.sharegpt_output_len > 0 ? o.sharegpt_output_len : count_of(text_tokens(from.answer, tokens));
      if (counts && !usable_turns(count_of(request.prompt_tokens), request.output_len, o.sharegpt_output_len > 0))
        continue;
    } else if (request.output_len == 0) {
      request.output_len = o.custom_output_len;
    }
    requests.push_back(std::move(request));
  }
  if (requests.empty())
    throw Error("{} has no prompt that can be used{}.", o.path,
                sharegpt ? ": two turns, 4 to 1024 tokens, 2048 with the answer" : "");
  // A file with fewer prompts is read again from its start.
  const auto found = static_cast<int64_t>(requests.size());
  if (found < o.num_prompts && o.warn)
    o.warn(fmt::format("{} prompt{} of {} {} repeated to make {}.", found, found == 1 ? "" : "s", o.path,
                       found == 1 ? "is" : "are", o.num_prompts));
  for (size_t i = 0; static_cast<int64_t>(requests.size()) < o.num_prompts; ++i) {
    BenchRequest again = requests[i];
    requests.push_back(std::move(again));
  }
  return requests;
}

}  // namespace

std::vector<int64_t> text_tokens(const std::string& text, const PromptTokens& tokens) {
  if (tokens.tokenizer != nullptr) {
    std::vector<int32_t> ids = tokens.tokenizer->encode(text, true);
    return {ids.begin(), ids.end()};
  }
  std::vector<int64_t> ids;
  for (unsigned char byte : text) ids.push_back(tokens.vocab_size > 0 ? byte % tokens.vocab_size : byte);
  return ids;
}

const std::vector<std::string>& dataset_names() {
  static const std::vector<std::string> names = {"random", "sharegpt", "custom", "prefix-repetition",
                                                 "prefix_repetition"};
  return names;
}

std::vector<BenchRequest> make_requests(const DatasetOptions& options, const PromptTokens& tokens) {
  if (options.num_prompts < 1) throw UsageError("--num-prompts must be at least 1.");
  if (options.name == "random") return random_requests(options, tokens);
  if (options.name == "prefix-repetition" || options.name == "prefix_repetition")
    return prefix_requests(options, tokens);
  return file_requests(options, tokens);
}

}  // namespace fk
