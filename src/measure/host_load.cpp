#include "measure/host_load.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

#include "measure/small_file.h"

namespace fk {
namespace {

// Background processes that wake now and then always use about this much.
constexpr double kAlwaysThere = 0.25;

struct Ticks {
  double busy = 0, all = 0;
};

// "cpu3 user nice system idle iowait irq softirq steal guest ...": steal time counts as busy, and guest time is
// included in user time.
std::map<int, Ticks> ticks_of(std::string_view stat) {
  std::map<int, Ticks> cores;
  while (!stat.empty()) {
    std::string line(stat.substr(0, stat.find('\n')));
    stat.remove_prefix(std::min(line.size() + 1, stat.size()));
    int core = 0;
    double t[8] = {};
    if (std::sscanf(line.c_str(), "cpu%d %lf %lf %lf %lf %lf %lf %lf %lf", &core, &t[0], &t[1], &t[2], &t[3], &t[4],
                    &t[5], &t[6], &t[7]) < 5)
      continue;
    Ticks& sum = cores[core];
    for (double part : t) sum.all += part;
    sum.busy = sum.all - t[3] - t[4];
  }
  return cores;
}

}  // namespace

double busy_cores_between(std::string_view before, std::string_view after, const std::set<int>& cores) {
  std::map<int, Ticks> first = ticks_of(before), second = ticks_of(after);
  double sum = 0;
  for (int core : cores) {
    if (!first.contains(core) || !second.contains(core)) continue;
    double all = second[core].all - first[core].all, busy = second[core].busy - first[core].busy;
    if (all > 0) sum += std::clamp(busy / all, 0.0, 1.0);
  }
  return sum;
}

HostLoad host_load(double seconds) {
  HostLoad load;
  cpu_set_t usable;
  CPU_ZERO(&usable);
  std::set<int> cores;
  if (sched_getaffinity(0, sizeof usable, &usable) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &usable)) cores.insert(core);
  load.cores = static_cast<int>(cores.size());
  std::string before = small_file("/proc/stat").value_or("");
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  load.busy_cores = busy_cores_between(before, small_file("/proc/stat").value_or(""), cores);
  double average = 0;
  if (getloadavg(&average, 1) == 1) load.average_1min = average;
  return load;
}

std::string load_warning(const HostLoad& load, int threads) {
  double idle = load.cores - load.busy_cores;
  if (load.busy_cores <= kAlwaysThere || idle >= threads - kAlwaysThere) return "";
  return fmt::format(
      "other programs keep {:.1f} of {} cores busy (load average {:.1f}); stop them before timing, or give fewer "
      "--threads: intervals will be wide, and results may be INVALID",
      load.busy_cores, load.cores, load.average_1min);
}

}  // namespace fk
