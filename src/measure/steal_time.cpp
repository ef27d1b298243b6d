#include "measure/steal_time.h"

#include <fmt/format.h>
#include <sched.h>

#include <charconv>

#include "measure/small_file.h"

namespace fk {

std::optional<int64_t> stolen_ticks(std::string_view stat, int core) {
  constexpr int kSteal = 8;  // user, nice, system, idle, iowait, irq, softirq, steal
  size_t at = stat.find(fmt::format("\ncpu{} ", core));
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view line = stat.substr(at + 1);
  line = line.substr(0, line.find('\n'));
  for (int field = 0; field < kSteal; ++field) {
    size_t blank = line.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    line = line.substr(blank + 1);
  }
  int64_t ticks = 0;
  auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), ticks);
  if (error != std::errc() || end == line.data()) return std::nullopt;
  return ticks;
}

std::optional<int64_t> stolen_ticks() {
  std::optional<std::string> stat = small_file("/proc/stat");
  return stat ? stolen_ticks(*stat, sched_getcpu()) : std::nullopt;
}

}  // namespace fk
