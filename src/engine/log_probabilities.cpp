#include "engine/log_probabilities.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fk {

DrawnLogprobs log_probabilities(std::span<const float> logits, int64_t drawn, int top) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  const double log_sum = largest + std::log(sum);
  auto of = [&](int64_t token) {
    return TokenLogprob{token, static_cast<float>(static_cast<double>(logits[static_cast<size_t>(token)]) - log_sum)};
  };
  DrawnLogprobs result{.drawn = of(drawn), .top = {}};
  const size_t wanted = std::min(static_cast<size_t>(std::max(top, 0)), logits.size());
  if (wanted == 0) return result;
  // The best so far, best first: a token is inserted seldom, so that a row is read once.
  auto before = [&](int64_t a, int64_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  std::vector<int64_t> best;
  for (int64_t token = 0; token < std::ssize(logits); ++token) {
    if (best.size() == wanted && !before(token, best.back())) continue;
    if (best.size() == wanted) best.pop_back();
    best.insert(std::upper_bound(best.begin(), best.end(), token, before), token);
  }
  for (int64_t token : best) result.top.push_back(of(token));
  return result;
}

DrawnLogprobs prompt_log_probabilities(std::span<const float> logits, int64_t token, int top) {
  DrawnLogprobs result = log_probabilities(logits, token, top);
  const float own = logits[static_cast<size_t>(token)];
  result.rank = std::count_if(logits.begin(), logits.end(), [own](float x) { return x >= own; });
  return result;
}

}  // namespace fk
