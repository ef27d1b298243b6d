// Waits before a measurement until the machine is ready for it, by what it measures: cores that other processes leave
// free, and on a GPU memory that the process before has returned and the temperature it began with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/device.h"
#include "core/json_fwd.h"

namespace fk {

// What the GPU's driver says (NVML). Nothing where there is no driver, or where it is not known which GPU is meant.
struct GpuState {
  int64_t used_bytes = 0;
  int temperature_c = 0;
};
std::optional<GpuState> gpu_state(Device device);

struct Settled {
  double waited_s = 0;
  bool ready = true;
  double busy_cores = 0;
  std::optional<GpuState> gpu;
  std::string warning;  // what was still in the way; empty where it is ready

  Json to_json() const;
};

class Settle {
 public:
  // The state of the GPU now is what later calls wait for.
  explicit Settle(Device device);
  // Waits at most so long. `threads`: of the work that will be timed.
  Settled wait(double limit_seconds, int threads) const;

 private:
  Device device_;
  std::optional<GpuState> first_;
};

}  // namespace fk
