#include "sandbox/process_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace fk {
namespace {

// Reads a file of /proc in small pieces: a large buffer would evict other data from the caches.
std::string proc_file(const std::string& path) {
  std::string text;
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return text;
  char piece[4096];
  for (ssize_t got; (got = read(fd, piece, sizeof piece)) > 0;) text.append(piece, static_cast<size_t>(got));
  close(fd);
  return text;
}

// The rest of the line that begins with `name`; empty if there is none.
std::string_view line_of(std::string_view text, std::string_view name) {
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.starts_with(name)) {
      line.remove_prefix(name.size());
      while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
      return line;
    }
    at = end + 1;
  }
  return {};
}

int64_t number(std::string_view text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

uint64_t mask_of(std::string_view hex) {
  uint64_t value = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
  return value;
}

// Lines of /proc/PID/maps that are program text from a file: "7f00-7f10 r-xp ... /lib/libc.so.6".
std::string text_mappings(std::string_view maps) {
  std::string found;
  for (size_t at = 0; at < maps.size();) {
    size_t end = std::min(maps.find('\n', at), maps.size());
    std::string_view line = maps.substr(at, end - at);
    size_t permissions = line.find(' ');
    if (permissions != std::string_view::npos && line.size() > permissions + 4 && line[permissions + 3] == 'x' &&
        line.find('/') != std::string_view::npos)
      found += fmt::format("{}\n", line);
    at = end + 1;
  }
  return found;
}

std::string named_signals(uint64_t mask) {
  std::string names;
  for (int i = 1; i < 64; ++i) {
    if ((mask >> (i - 1) & 1) == 0) continue;
    const char* name = sigabbrev_np(i);
    names += fmt::format("{}{}", names.empty() ? "" : ", ",
                         name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", i));
  }
  return names;
}

}  // namespace

ProcessState read_process_state(pid_t process, const Tracer& tracer, bool thorough) {
  ProcessState state;
  for (pid_t thread : tracer.threads()) {
    std::string text = proc_file(fmt::format("/proc/{}/task/{}/status", process, thread));
    if (text.empty()) continue;  // it has ended
    state.cores[thread] = line_of(text, "Cpus_allowed:");
    state.switches += number(line_of(text, "nonvoluntary_ctxt_switches:"));
    if (std::optional<uint64_t> mode = Tracer::float_state(thread)) state.float_state[thread] = *mode;
    if (thread != process) continue;
    // The C library uses signals 32 and 33 from the start of the first thread on.
    constexpr uint64_t kOfTheLibrary = uint64_t{3} << 31;
    state.ignored = mask_of(line_of(text, "SigIgn:")) & ~kOfTheLibrary;
    state.caught = mask_of(line_of(text, "SigCgt:")) & ~kOfTheLibrary;
    state.filters = line_of(text, "Seccomp_filters:");
    state.peak_kib = number(line_of(text, "VmHWM:"));
    state.own_kib = number(line_of(text, "RssAnon:"));
    state.threads = number(line_of(text, "Threads:"));
  }
  if (!thorough) return state;
  state.limits = proc_file(fmt::format("/proc/{}/limits", process));
  state.code = text_mappings(proc_file(fmt::format("/proc/{}/maps", process)));
  return state;
}

std::optional<std::string> changed_state(const ProcessState& before, const ProcessState& after) {
  if (uint64_t changed = (before.caught ^ after.caught) | (before.ignored ^ after.ignored))
    return fmt::format("It changed what happens on a signal ({}).", named_signals(changed));
  if (after.filters != before.filters) return "It added a filter of system calls.";
  if (!before.limits.empty() && !after.limits.empty() && after.limits != before.limits)
    return "It changed a resource limit of its process.";
  auto first = before.float_state.begin();
  for (const auto& [thread, mode] : after.float_state) {
    auto own = before.float_state.find(thread);
    if (own == before.float_state.end()) own = first;
    if (own == before.float_state.end() || mode == own->second) continue;
    return "It left the rounding mode of a thread changed, or how subnormal numbers are treated, or matrix tiles set "
           "up. "
           "Where it was compiled with -ffast-math or -Ofast, that is done when it is loaded: use single options "
           "instead, "
           "such as -fassociative-math -fno-signed-zeros -fno-trapping-math.";
  }
  for (const auto& [thread, cores] : after.cores)
    if (auto own = before.cores.find(thread); own != before.cores.end() && own->second != cores)
      return "It moved a thread to other cores.";
  if (!before.code.empty() && !after.code.empty())
    for (size_t at = 0; at < before.code.size();) {
      size_t end = before.code.find('\n', at) + 1;
      if (after.code.find(before.code.substr(at, end - at)) == std::string::npos)
        return fmt::format("It changed the mapping of program text: {}.", before.code.substr(at, end - at - 1));
      at = end;
    }
  return std::nullopt;
}

}  // namespace fk
