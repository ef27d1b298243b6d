#include "ops/batch_invariant.h"

#include <atomic>

namespace fk {
namespace {

std::atomic<bool> order_is_fixed{false};

}  // namespace

void set_batch_invariant(bool on) { order_is_fixed.store(on, std::memory_order_relaxed); }
bool batch_invariant() { return order_is_fixed.load(std::memory_order_relaxed); }

}  // namespace fk
