// SpanObserver: an observer that also hears the end of every call, and so can time calls.
#pragma once

#include <string_view>

#include "ops/forward_context.h"

namespace fk {

// Unlike under other observers fused implementations run, since what runs without an observer is what is timed. Calls
// are nested: the calls of a composition's parts come between its own begin and end.
class SpanObserver : public CallObserver {
 public:
  // Once for every before_call that returned true, unless the call threw.
  virtual void after_call(const Node& node, std::string_view implementation) = 0;
};

}  // namespace fk
