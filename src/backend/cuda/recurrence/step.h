// Linear attention and delta rules, token by token: decoding, and prefill of what the chunk form does not take.
#pragma once

#include <string_view>

#include "ops/l1/linear_recurrence.h"

namespace fk::cuda {

std::string_view refuse_recurrence(const LinearRecurrence& call);
void run_recurrence_steps(const LinearRecurrence& call, void* stream);

struct RecurrenceSteps {
  static std::string_view refuse(const LinearRecurrence& call) { return refuse_recurrence(call); }
  static void run(Context& ctx, const LinearRecurrence& call) { run_recurrence_steps(call, ctx.stream); }
};

}  // namespace fk::cuda
