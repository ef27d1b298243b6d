// The order of the judge to a worker, in memory that only the judge can write: a kind, a number of entries, and the
// entries. The worker reads it while it is timed, so it needs no parsing.
#pragma once

#include <cstdint>

namespace fk {

enum class Order : int32_t {
  kMessage,  // read a request from the channel
  kCalls,    // make these calls
  kGo,       // release the work queued on the GPU and wait for it
  kWait,     // sleep for this many microseconds
};

inline constexpr int64_t kMostCalls = 1024;
inline constexpr int64_t kOrderWords = kMostCalls + 2;

// The worker's status when it stops.
enum class WorkerStatus : uint64_t { kDone, kRefused, kThrew };

}  // namespace fk
