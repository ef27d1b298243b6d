// Linear attention and delta rules in chunks of 64 tokens: products of matrices on tensor cores.
#pragma once

#include <string_view>

#include "ops/l1/linear_recurrence.h"

namespace fk::cuda {

std::string_view refuse_recurrence_chunks(const LinearRecurrence& call);
void run_recurrence_chunks(Context& ctx, const LinearRecurrence& call);

struct RecurrenceChunks {
  static std::string_view refuse(const LinearRecurrence& call) { return refuse_recurrence_chunks(call); }
  static void run(Context& ctx, const LinearRecurrence& call) { run_recurrence_chunks(ctx, call); }
};

}  // namespace fk::cuda
