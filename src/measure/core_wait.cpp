#include "measure/core_wait.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "measure/small_file.h"

namespace fk {

std::optional<int64_t> waited_for_core_ns(std::string_view schedstat) {
  // Nanoseconds run, nanoseconds waited, and number of times the thread got a core.
  size_t space = schedstat.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  int64_t waited = 0;
  auto [end, status] = std::from_chars(schedstat.data() + space + 1, schedstat.data() + schedstat.size(), waited);
  if (status != std::errc() || end == schedstat.data() + schedstat.size() || *end != ' ') return std::nullopt;
  return waited;
}

std::optional<int64_t> waited_for_cores_ns(pid_t process) {
  // Threads may end during this loop, so nothing here may throw.
  std::error_code error;
  std::filesystem::directory_iterator task(fmt::format("/proc/{}/task", process), error), end;
  std::optional<int64_t> sum;
  for (; !error && task != end; task.increment(error)) {
    std::optional<std::string> text = small_file(task->path() / "schedstat");
    if (std::optional<int64_t> waited = text ? waited_for_core_ns(*text) : std::nullopt)
      sum = sum.value_or(0) + *waited;
  }
  return sum;
}

}  // namespace fk
