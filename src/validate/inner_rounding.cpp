#include "validate/inner_rounding.h"

#include <algorithm>
#include <cmath>

#include "core/rng.h"
#include "ops/node.h"
#include "ops/registry.h"

namespace fk {
namespace {

// A neighbour of x among the numbers with this distance from 1 to the next. `uniform`: in (0, 1).
double neighbour(double x, double epsilon, double uniform) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double step = std::ldexp(epsilon, std::ilogb(x)), steps = std::floor(x / step);
  return step * (steps + (uniform < x / step - steps ? 1 : 0));
}

// `drawn`: how many numbers of the stream were used before.
void round(const View& v, double epsilon, const Stream& stream, uint64_t& drawn) {
  if (v.rank() > 1) {
    for (int64_t i = 0; i < v.size(0); ++i) round(v.select(0, i), epsilon, stream, drawn);
    return;
  }
  auto* values = v.ptr<double>();
  const int64_t n = v.numel(), stride = v.rank() == 0 ? 1 : v.stride(0);
  for (int64_t i = 0; i < n; ++i) {
    double& x = values[i * stride];
    x = neighbour(x, epsilon, stream.uniform(drawn++));
  }
}

bool overlap(const View& a, const View& b) {
  auto end = [](const View& v) {
    int64_t last = 0;
    for (int d = 0; d < v.rank(); ++d) last += (v.size(d) - 1) * v.stride(d);
    return static_cast<const std::byte*>(v.data()) + (last + 1) * static_cast<int64_t>(dtype_size(v.dtype()));
  };
  if (a.numel() == 0 || b.numel() == 0) return false;
  return a.data() < end(b) && b.data() < end(a);
}

}  // namespace

// What the outermost call writes is rounded in any kernel, and its bounds allow for that.
bool InnerRounding::is_outside(const View& v) const {
  return std::any_of(calls_.front().begin(), calls_.front().end(),
                     [&](const OptView& arg) { return arg && overlap(*arg, v); }) ||
         std::any_of(states_.begin(), states_.end(), [&](const View& state) { return overlap(state, v); });
}

bool InnerRounding::before_call(const Node&, const Context& ctx, std::span<const OptView> args) {
  if (calls_.empty()) states_ = ctx.states;
  calls_.push_back(args);
  return true;
}

void InnerRounding::after_call(const Node& node, std::string_view) {
  const std::span<const OptView> args = calls_.back();
  if (calls_.size() > 1)
    for (size_t i = 0; i < args.size(); ++i) {
      if (!args[i] || node.info().args[i].role == Role::kInput || args[i]->dtype() != DType::kF64) continue;
      if (is_outside(*args[i])) continue;
      uint64_t drawn = 0;
      round(*args[i], dtype_epsilon(dtype_), Stream(stream_key(seed_ + rounded_++, "inner rounding")), drawn);
    }
  calls_.pop_back();
}

}  // namespace fk
