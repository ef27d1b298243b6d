// other_routing: the routing of tokens to experts in another order, for calls that must not repeat an answer.
#pragma once

#include <cstdint>

#include "ops/materialize.h"
#include "ops/workload.h"

namespace fk {

// Replaces the routing that arguments of a call describe by one of the same loads, with tokens and experts in an order
// drawn from the key. Takes a few nanoseconds per id, where make_routing() takes many. Without such arguments, or where
// their values are no routing, nothing changes.
void reorder_routing(const Inputs& specs, CallData& data, uint64_t key);

}  // namespace fk
