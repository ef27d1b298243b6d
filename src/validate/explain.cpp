#include "validate/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace fk {
namespace {

// Few or equal elements may agree by chance.
bool telling(const View& v) {
  constexpr int64_t kFew = 8;
  if (v.numel() < kFew) return false;
  size_t size = dtype_size(v.dtype());
  const auto* bytes = static_cast<const std::byte*>(v.data());
  for (size_t i = 1; i < static_cast<size_t>(v.numel()); ++i)
    if (std::memcmp(bytes, bytes + i * size, size) != 0) return true;
  return false;
}

bool same_bits(const View& a, const View& b) {
  return a.spec() == b.spec() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

bool all_zero(const View& v) {
  const auto* bytes = static_cast<const std::byte*>(v.data());
  return v.numel() > 0 && std::all_of(bytes, bytes + v.size_bytes(), [](std::byte b) { return b == std::byte{0}; });
}

// A replay returns what was right in an earlier call, or the same in all of them. Two wrong outputs may agree by
// chance: an embedding that gives every token the row of the first one, and two calls with the same first token.
std::optional<Explanation> of_earlier_call(const View& v, const CallTruth::Item& item,
                                           std::span<const EarlierCall> earlier) {
  int alike = 0, others = 0;
  bool any = false, right = false;
  for (const EarlierCall& call : earlier) {
    const Tensor* old = written_tensor(*call.outcome, item);
    if (call.same_data || old == nullptr || !(v.spec() == old->view().spec())) continue;
    const bool same = same_bits(v, *old);
    any |= same;
    if (call.similar_data) continue;
    ++(same ? alike : others);
    right |= same && call.right;
  }
  if (!any) return std::nullopt;
  return Explanation{"It is, bit by bit, what an earlier call on other data returned.",
                     right || (alike > 1 && others == 0)};
}

}  // namespace

std::optional<Explanation> explain(const CallTruth& truth, const CallOutcome& outcome,
                                   std::span<const EarlierCall> earlier, std::span<const Expected> stale) {
  for (const CallTruth::Item& item : truth.items()) {
    const Tensor* got = written_tensor(outcome, item);
    if (got == nullptr || !(got->view().spec() == item.spec)) return std::nullopt;
    if (truth.compare_item(item, *got).ok()) continue;
    const View& v = *got;
    if (item.before != nullptr && same_bits(v, *item.before))
      return Explanation{"It is as it was before the call: nothing was written to it."};
    for (const Expected& old : stale)
      if (telling(v) && compare(v, reference_in(old, item), item.bounds, item.before).ok())
        return Explanation{
            "It fits weights that were bound earlier: prepare() must compute its data again after every bind()."};
    if (telling(v))
      if (auto replay = of_earlier_call(v, item, earlier)) return replay;
    if (all_zero(v)) return Explanation{"It is zero everywhere."};
    for (size_t i = 0; i < truth.data().given.size(); ++i)
      if (const auto& input = truth.data().given[i]; input && telling(v) && same_bits(v, *input))
        return Explanation{"It is a copy of an input."};
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace fk
