#include "ops/routing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"
#include "core/rng.h"

namespace fk {
namespace {

// Tokens of each expert, busiest first: `touched` experts get at least one, none gets more than there are tokens.
std::vector<int64_t> loads(int64_t touched, int64_t top_k, int64_t tokens, double skew) {
  std::vector<int64_t> load(static_cast<size_t>(touched), 1);
  int64_t left = tokens * top_k - touched;
  double shares = 0;
  for (int64_t r = 1; r <= touched; ++r) shares += std::pow(static_cast<double>(r), -skew);
  const auto spread = static_cast<double>(left);
  for (int64_t r = 0; r < touched; ++r) {
    double share = spread * std::pow(static_cast<double>(r + 1), -skew) / shares;
    int64_t more = std::min({static_cast<int64_t>(std::llround(share)), tokens - 1, left});
    load[static_cast<size_t>(r)] += more;
    left -= more;
  }
  // What rounding and the limit left over goes to the busiest that have room.
  for (int64_t& n : load) {
    int64_t more = std::min(tokens - n, left);
    n += more;
    left -= more;
  }
  FK_CHECK(left == 0, "the experts touched have room for all tokens");
  return load;
}

std::vector<int32_t> in_random_order(int64_t n, const Stream& stream) {
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.below(i, i)]);
  return order;
}

}  // namespace

int64_t experts_touched(int64_t experts, int64_t top_k, int64_t tokens) {
  if (tokens == 0 || top_k < 1 || top_k > experts) return 0;
  auto E = static_cast<double>(experts), share = static_cast<double>(top_k) / E;
  double balanced = E * (1 - std::pow(1 - share, static_cast<double>(tokens)));
  // At least k, which one token alone reaches.
  return std::clamp(static_cast<int64_t>(balanced * 7 / 8), top_k, std::min(experts, top_k * tokens));
}

void sort_by_expert(const std::vector<int32_t>& topk_ids, int64_t experts, std::vector<int32_t>& sorted_ids,
                    std::vector<int32_t>& offsets) {
  sorted_ids.resize(topk_ids.size());
  offsets.assign(static_cast<size_t>(experts) + 1, 0);
  for (int32_t id : topk_ids) ++offsets[static_cast<size_t>(id) + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  std::vector<int32_t> next(offsets.begin(), offsets.end() - 1);
  for (size_t i = 0; i < topk_ids.size(); ++i)
    sorted_ids[static_cast<size_t>(next[static_cast<size_t>(topk_ids[i])]++)] = static_cast<int32_t>(i);
}

Routing make_routing(int64_t experts, int64_t top_k, int64_t tokens, double skew, uint64_t seed) {
  FK_CHECK(top_k >= 1 && top_k <= experts);
  std::vector<int32_t> expert = in_random_order(experts, Stream(seed, "routing experts")),
                       token = in_random_order(tokens, Stream(seed, "routing tokens"));
  Routing routing;
  routing.topk_ids.resize(static_cast<size_t>(tokens * top_k));
  int64_t slot = 0, rank = 0;
  if (tokens > 0)
    for (int64_t load : loads(experts_touched(experts, top_k, tokens), top_k, tokens, skew)) {
      // Dealt out to one token after the other: no expert has more slots than there are tokens, so no token gets it
      // twice.
      for (int64_t i = 0; i < load; ++i, ++slot) {
        int64_t row = token[static_cast<size_t>(slot % tokens)];
        routing.topk_ids[static_cast<size_t>(row * top_k + slot / tokens)] = expert[static_cast<size_t>(rank)];
      }
      ++rank;
    }
  // A router lists a token's experts by weight, not by how busy they are.
  Stream order(seed, "routing order");
  for (int64_t t = 0; t < tokens; ++t) {
    auto first = routing.topk_ids.begin() + t * top_k;
    auto turn = static_cast<int64_t>(order.below(static_cast<uint64_t>(t), static_cast<uint64_t>(top_k)));
    std::rotate(first, first + turn, first + top_k);
  }
  sort_by_expert(routing.topk_ids, experts, routing.sorted_ids, routing.offsets);
  return routing;
}

}  // namespace fk
