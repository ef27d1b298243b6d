// Finds the workload of an observed call: the one for which the operator's contract gives the same arguments.
//
// Independent of the operator: workloads that fit the batch and the shapes are tried on the contract until one gives
// exactly the shapes and dtypes of the call.
#pragma once

#include <optional>
#include <vector>

#include "ops/forward_context.h"
#include "ops/node.h"
#include "ops/workload.h"

namespace fk {

// The sequences of a batch, in the order of its tokens.
struct SeenBatch {
  std::vector<Sequence> sequences;
  size_t decoding = 0;  // how many of them, at the front, decode
  int64_t page_size = kDefaultPageSize;
};
SeenBatch seen_batch(const AttentionMetadata& metadata);

enum class BatchPart : uint8_t { kNone, kAll, kDecoding, kPrefilling };

struct FittedWorkload {
  Workload workload;
  BatchPart part = BatchPart::kNone;  // whose sequences it has; kNone: the call depends on their number only
};

// `given`: the inputs and states of the call. Empty if none fits.
std::optional<FittedWorkload> fit_workload(const Node& node, const Fields& init, Args given, const SeenBatch& batch);

}  // namespace fk
