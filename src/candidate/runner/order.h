// What a worker is to do when it is let go, in memory that only the judge can write: a kind, a number of entries, and
// the entries. It is read when the clock already runs, so there is nothing to parse in it.
#pragma once

#include <cstdint>

namespace fk {

enum class Order : int32_t {
  kMessage,  // a request waits in the channel
  kCalls,    // make these calls
  kNothing,  // the same, but leave the kernels out: what a sample takes besides
  kGo,       // release what was queued on the GPU and wait for it
  kWait,     // sleep for so many microseconds
};

inline constexpr int64_t kMostCalls = 1024;
inline constexpr int64_t kOrderWords = kMostCalls + 2;

// What a worker shows when it stops.
enum class WorkerStatus : uint64_t { kDone, kRefused, kThrew };

}  // namespace fk
