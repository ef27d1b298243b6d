// The batches of scenarios of language models: deterministic, ragged, and with contexts in the paged cache.
#include "bench/scenarios/steps.h"

#include <fmt/format.h>

#include <algorithm>

namespace fk {
namespace {

constexpr int64_t kTokens[] = {1, 8, 32, 128, 512, 2048};
// Contexts of all decoding sequences together: as if an engine had filled a cache of this size.
constexpr int64_t kCachedTokens = 32768;
constexpr int64_t kMeanContext = 512;

// Contexts from an eighth of the mean to nearly twice the mean, none a whole number of blocks. Few different ones, in
// runs, so that files stay short.
std::vector<Sequence> decoding(int64_t sequences, int64_t max_context) {
  constexpr int64_t kLevels = 8;
  int64_t mean = std::max<int64_t>(8, std::min({kMeanContext, kCachedTokens / sequences, max_context / 2}));
  std::vector<Sequence> list;
  for (int64_t i = 0; i < sequences; ++i) {
    int64_t level = sequences == 1 ? kLevels / 2 : i * kLevels / sequences;
    int64_t context = mean / kLevels + level * mean * 2 / (kLevels + 1) + 3;
    list.push_back({1, std::min(context, max_context - 1)});
  }
  return list;
}

// Prompts of rising length; every third one is the rest of a longer prompt whose start is in the cache.
std::vector<Sequence> prefilling(int64_t tokens, int64_t max_context) {
  int64_t count = std::max(std::clamp<int64_t>(tokens / 64, 2, 8), 4 * tokens / max_context + 1);
  int64_t weights = count * (count + 1) / 2, left = tokens;
  std::vector<Sequence> list;
  for (int64_t i = 0; i < count; ++i) {
    int64_t length = i + 1 == count ? left : std::max<int64_t>(1, tokens * (i + 1) / weights);
    length = std::min(length, left - (count - 1 - i));
    left -= length;
    list.push_back({length, i % 3 == 1 ? std::min<int64_t>(100, max_context - length) : 0});
  }
  // A single new token with a context is a sequence that decodes, and those come first.
  std::stable_partition(list.begin(), list.end(),
                        [](const Sequence& s) { return s.query_len == 1 && s.context_len > 0; });
  return list;
}

}  // namespace

std::vector<Step> steps_of_all_sizes(int64_t max_context) {
  std::vector<Step> steps;
  for (int64_t tokens : kTokens) steps.push_back({fmt::format("decode-{}", tokens), decoding(tokens, max_context)});
  for (int64_t tokens : kTokens)
    if (tokens > 1) steps.push_back({fmt::format("prefill-{}", tokens), prefilling(tokens, max_context)});
  return steps;
}

}  // namespace fk
