// How busy this machine is with other work, asked before anything is timed.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace fk {

struct HostLoad {
  double busy_cores = 0;    // of those this process may use, in a short moment just now
  int cores = 0;            // that this process may use; 0: unknown
  double average_1min = 0;  // the load average
};

// Watches the cores for that long, while this process does nothing.
HostLoad host_load(double seconds = 0.2);

// Cores' worth of work between two texts of /proc/stat, on the cores named.
double busy_cores_between(std::string_view before, std::string_view after, const std::set<int>& cores);

// One sentence where so much runs beside us that times on `threads` threads will be poor; else empty.
std::string load_warning(const HostLoad& load, int threads);

}  // namespace fk
