// Linear attention and delta rules for one token of every sequence: decoding.
#pragma once

#include <string_view>

#include "ops/l1/linear_recurrence.h"

namespace fk::cuda {

std::string_view refuse_one_token(const LinearRecurrence& call);
void run_one_token(const LinearRecurrence& call, void* stream);

struct RecurrenceOneToken {
  static std::string_view refuse(const LinearRecurrence& call) { return refuse_one_token(call); }
  static void run(Context& ctx, const LinearRecurrence& call) { run_one_token(call, ctx.stream); }
};

}  // namespace fk::cuda
