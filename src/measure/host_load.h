// How busy this machine is with other work, checked before a measurement.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace fk {

struct HostLoad {
  double busy_cores = 0;    // busy cores among those this process may use, sampled just now
  int cores = 0;            // cores that this process may use; 0: unknown
  double average_1min = 0;  // the load average
};

// Samples the cores for that long, while this process is idle.
HostLoad host_load(double seconds = 0.2);

// Number of busy cores between two texts of /proc/stat, among the given cores.
double busy_cores_between(std::string_view before, std::string_view after, const std::set<int>& cores);

// One sentence if other processes are so busy that times on `threads` threads will be unreliable; otherwise empty.
std::string load_warning(const HostLoad& load, int threads);

}  // namespace fk
