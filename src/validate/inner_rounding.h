// InnerRounding: makes a reference compute as if the operators inside a composition stored their results in the judged
// dtype: every element becomes one of its two neighbours in that dtype, drawn at random, the nearer one more often
// (stochastic rounding). What the dtype represents exactly stays.
//
// What this does to the results shows how much of an error comes from the inputs and not from the kernel: where two
// scores of a softmax or of a router are nearly equal, a rounding decides which of them wins, and a whole row differs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/span_observer.h"

namespace fk {

class InnerRounding final : public SpanObserver {
 public:
  InnerRounding(DType dtype, uint64_t seed) : dtype_(dtype), seed_(seed) {}

  bool before_call(const Node& node, const Context& ctx, std::span<const OptView> args) override;
  void after_call(const Node& node, std::string_view implementation) override;

 private:
  bool is_outside(const View& v) const;

  DType dtype_;
  uint64_t seed_;
  std::vector<std::span<const OptView>> calls_;  // those that have begun, outermost first
  std::span<const View> states_;
  uint64_t rounded_ = 0;  // tensors
};

}  // namespace fk
