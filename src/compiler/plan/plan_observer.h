// PlanObserver: an observer of calls that also hears of the steps of a plan that are no calls of operators.
#pragma once

#include <span>
#include <string_view>

#include "core/tensor.h"
#include "ops/span_observer.h"

namespace fk {

class PlanObserver : public SpanObserver {
 public:
  // Around the steps of a pass. No call of the whole model is around them, as in a tree.
  virtual void before_pass() {}
  virtual void after_pass() {}
  // `name`: the operators of the region, "rms_norm + linear"; `path`: the place of the first of them.
  virtual void before_region(std::string_view name, std::string_view path, std::span<const View> inputs,
                             std::span<const View> outputs) = 0;
  virtual void after_region() = 0;
};

}  // namespace fk
