#include "bench/kernels/other_routing.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/rng.h"
#include "ops/routing.h"

namespace fk {
namespace {

struct RoutingArguments {
  const View *ids = nullptr, *sorted = nullptr, *offsets = nullptr;
  int64_t experts = 0, top_k = 1;
};

RoutingArguments routing_arguments(const Inputs& specs, const CallData& data) {
  using Kind = Generator::Kind;
  RoutingArguments found;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!specs[i] || !specs[i]->generator.is_routing()) continue;
    const Generator& g = specs[i]->generator;
    const View** of_kind = g.kind == Kind::kTopkIds     ? &found.ids
                           : g.kind == Kind::kSortedIds ? &found.sorted
                                                        : &found.offsets;
    *of_kind = &data.given[i]->view();
    found.experts = static_cast<int64_t>(g.a);
    found.top_k = static_cast<int64_t>(g.b);
  }
  return found;
}

// The expert of every (token, place) pair; empty if the arguments do not tell, -1 where they have none.
std::vector<int32_t> ids_of(const RoutingArguments& args) {
  if (args.ids != nullptr) return {args.ids->ptr<int32_t>(), args.ids->ptr<int32_t>() + args.ids->numel()};
  if (args.sorted == nullptr || args.offsets == nullptr || args.offsets->numel() != args.experts + 1) return {};
  const int64_t pairs = args.sorted->numel();
  const int32_t *sorted = args.sorted->ptr<int32_t>(), *offsets = args.offsets->ptr<int32_t>();
  std::vector<int32_t> ids(static_cast<size_t>(pairs), -1);
  for (int64_t e = 0; e < args.experts; ++e)
    for (int64_t i = std::max(offsets[e], 0); i < std::min<int64_t>(offsets[e + 1], pairs); ++i)
      if (sorted[i] >= 0 && sorted[i] < pairs) ids[static_cast<size_t>(sorted[i])] = static_cast<int32_t>(e);
  return ids;
}

std::vector<int32_t> in_random_order(int64_t n, const Stream& stream) {
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.below(i, i)]);
  return order;
}

void put(const std::vector<int32_t>& values, const View* to) {
  if (to == nullptr) return;
  FK_CHECK(static_cast<int64_t>(values.size()) == to->numel());
  std::copy(values.begin(), values.end(), to->ptr<int32_t>());
}

}  // namespace

void reorder_routing(const Inputs& specs, CallData& data, uint64_t key) {
  const RoutingArguments args = routing_arguments(specs, data);
  const std::vector<int32_t> ids = ids_of(args);
  auto known = [&](int32_t id) { return id >= 0 && id < args.experts; };
  if (ids.empty() || !std::all_of(ids.begin(), ids.end(), known)) return;
  const auto top_k = static_cast<size_t>(args.top_k);
  FK_CHECK(top_k > 0 && ids.size() % top_k == 0);
  const std::vector<int32_t> expert = in_random_order(args.experts, Stream(key, "other experts")),
                             token =
                                 in_random_order(static_cast<int64_t>(ids.size() / top_k), Stream(key, "other tokens"));
  std::vector<int32_t> others, sorted, offsets;
  others.reserve(ids.size());
  for (int32_t t : token)
    for (size_t j = 0; j < top_k; ++j)
      others.push_back(expert[static_cast<size_t>(ids[static_cast<size_t>(t) * top_k + j])]);
  put(others, args.ids);
  if (args.sorted == nullptr && args.offsets == nullptr) return;
  sort_by_expert(others, args.experts, sorted, offsets);
  put(sorted, args.sorted);
  put(offsets, args.offsets);
}

}  // namespace fk
