#include "compiler/plan/arena_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/rng.h"

namespace fk {
namespace {

size_t aligned(size_t bytes) { return (bytes + kPlanAlignment - 1) / kPlanAlignment * kPlanAlignment; }

// For each request those that live at the same time as it does.
using Neighbours = std::vector<std::vector<size_t>>;

Neighbours neighbours_of(std::span<const ArenaRequest> requests, const std::vector<size_t>& by_time) {
  Neighbours neighbours(requests.size());
  std::vector<size_t> live;
  for (size_t i : by_time) {
    std::erase_if(live, [&](size_t other) { return requests[other].last < requests[i].first; });
    for (size_t other : live) {
      neighbours[i].push_back(other);
      neighbours[other].push_back(i);
    }
    live.push_back(i);
  }
  return neighbours;
}

size_t lower_bound_of(std::span<const ArenaRequest> requests, const std::vector<size_t>& by_time) {
  size_t most = 0;
  std::vector<size_t> live;
  for (size_t i : by_time) {
    std::erase_if(live, [&](size_t other) { return requests[other].last < requests[i].first; });
    live.push_back(i);
    size_t sum = 0;
    for (size_t other : live) sum += aligned(requests[other].bytes);
    most = std::max(most, sum);
  }
  return most;
}

// One after the other in this order, each in the first gap between its neighbours that is large enough.
ArenaPlan place_in_order(std::span<const ArenaRequest> requests, const Neighbours& neighbours,
                         const std::vector<size_t>& order) {
  constexpr auto kNotYet = static_cast<size_t>(-1);
  ArenaPlan plan{.offsets = std::vector<size_t>(requests.size(), kNotYet)};
  struct Taken {
    size_t begin, end;
  };
  std::vector<Taken> taken;
  for (size_t i : order) {
    const size_t bytes = aligned(requests[i].bytes);
    taken.clear();
    for (size_t other : neighbours[i])
      if (plan.offsets[other] != kNotYet)
        taken.push_back({plan.offsets[other], plan.offsets[other] + aligned(requests[other].bytes)});
    std::sort(taken.begin(), taken.end(), [](const Taken& a, const Taken& b) { return a.begin < b.begin; });
    size_t at = 0;
    for (const Taken& t : taken) {
      if (t.begin >= at + bytes) break;
      at = std::max(at, t.end);
    }
    plan.offsets[i] = at;
    plan.bytes = std::max(plan.bytes, at + bytes);
  }
  return plan;
}

// Those that live at the fullest time first, the largest of them before the others; then those of the next fullest.
std::vector<size_t> sorted_by_breadth(std::span<const ArenaRequest> requests, const std::vector<size_t>& by_time,
                                      const std::vector<size_t>& by_size) {
  struct Moment {
    size_t bytes;
    int time;
  };
  std::vector<Moment> moments;
  std::vector<size_t> live;
  for (size_t i : by_time) {
    std::erase_if(live, [&](size_t other) { return requests[other].last < requests[i].first; });
    live.push_back(i);
    size_t sum = 0;
    for (size_t other : live) sum += aligned(requests[other].bytes);
    moments.push_back({sum, requests[i].first});
  }
  std::stable_sort(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) { return a.bytes > b.bytes; });
  std::vector<size_t> rank(requests.size());
  for (size_t k = 0; k < by_size.size(); ++k) rank[by_size[k]] = k;
  std::vector<size_t> order, of_moment;
  std::vector<bool> taken(requests.size(), false);
  for (const Moment& moment : moments) {
    of_moment.clear();
    for (size_t i : by_time) {
      if (requests[i].first > moment.time) break;
      if (requests[i].last >= moment.time && !taken[i]) of_moment.push_back(i);
    }
    std::sort(of_moment.begin(), of_moment.end(), [&](size_t a, size_t b) { return rank[a] < rank[b]; });
    for (size_t i : of_moment) taken[i] = true;
    order.insert(order.end(), of_moment.begin(), of_moment.end());
  }
  return order;
}

}  // namespace

ArenaPlan plan_arena(std::span<const ArenaRequest> requests, std::span<const size_t> hint) {
  std::vector<size_t> by_time(requests.size());
  std::iota(by_time.begin(), by_time.end(), size_t{0});
  std::stable_sort(by_time.begin(), by_time.end(),
                   [&](size_t a, size_t b) { return requests[a].first < requests[b].first; });
  const Neighbours neighbours = neighbours_of(requests, by_time);
  const size_t least = lower_bound_of(requests, by_time);

  std::vector<size_t> by_size = by_time, by_area = by_time;
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return requests[a].bytes > requests[b].bytes; });
  auto area = [&](size_t i) {
    return requests[i].bytes * static_cast<size_t>(requests[i].last - requests[i].first + 1);
  };
  std::stable_sort(by_area.begin(), by_area.end(), [&](size_t a, size_t b) { return area(a) > area(b); });

  ArenaPlan best;
  size_t best_excess = 0;
  // Returns how far arrays end behind the lower bound, all together: unlike the size of the block it becomes less
  // wherever a part of the model becomes better.
  auto try_order = [&](const std::vector<size_t>& order) {
    ArenaPlan plan = place_in_order(requests, neighbours, order);
    size_t excess = 0;
    for (size_t i = 0; i < requests.size(); ++i)
      if (const size_t end = plan.offsets[i] + aligned(requests[i].bytes); end > least) excess += end - least;
    if (best.order.empty() || plan.bytes < best.bytes) {
      best = std::move(plan);
      best.order = order;
      best_excess = excess;
    }
    return excess;
  };
  const bool has_hint = hint.size() == requests.size() && !requests.empty();
  // A block that is so near to the lower bound is not improved further.
  auto good_enough = [&] { return has_hint ? best.bytes * 10 <= least * 11 : best.bytes * 20 <= least * 21; };
  if (has_hint) try_order({hint.begin(), hint.end()});
  std::vector<size_t> by_breadth = sorted_by_breadth(requests, by_time, by_size);
  for (const std::vector<size_t>* order : {&by_breadth, &by_size, &by_area, &by_time})
    if (best.order.empty() || !good_enough()) try_order(*order);
  // Orders next to the current one, at first also worse ones. Large models get fewer tries, and less is tried where an
  // earlier plan of the same arrays was searched for, since a plan is made while a batch waits.
  const size_t tries = (has_hint ? 10000 : 800000) / std::max<size_t>(requests.size(), 1);
  const Stream stream(0, "memory plan");
  std::vector<size_t> current = best.order;
  size_t current_excess = best_excess;
  for (size_t i = 0; i < tries && !good_enough(); ++i) {
    std::vector<size_t> next = current;
    const auto from = static_cast<std::ptrdiff_t>(stream.below(3 * i, next.size()));
    const auto to = static_cast<std::ptrdiff_t>(stream.below(3 * i + 1, next.size()));
    if (from < to)
      std::rotate(next.begin() + from, next.begin() + from + 1, next.begin() + to + 1);
    else
      std::rotate(next.begin() + to, next.begin() + from, next.begin() + from + 1);
    const size_t excess = try_order(next);
    const double worse = static_cast<double>(excess) - static_cast<double>(current_excess);
    const double left = 1 - static_cast<double>(i) / static_cast<double>(tries);
    const double heat = 0.02 * static_cast<double>(least) * left;
    constexpr uint64_t kFine = uint64_t{1} << 30;
    const double draw = static_cast<double>(stream.below(3 * i + 2, kFine)) / static_cast<double>(kFine);
    if (worse > 0 && draw >= std::exp(-worse / heat)) continue;
    current = std::move(next);
    current_excess = excess;
  }
  best.lower_bound = least;
  return best;
}

}  // namespace fk
