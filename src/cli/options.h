// The flags of every verb, parsed once by main and passed to the verb that runs.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flags.h"
#include "core/device.h"

namespace fk {

inline constexpr int kMaxThreads = 256;

// A flag that was given, for the record of a run.
struct GivenFlag {
  std::string name;   // "--num-runs"
  std::string value;  // its texts, separated by blanks
  std::string from;   // kCommandLine, or file and line of the config file
};
inline constexpr const char* kCommandLine = "command line";

struct CommonOptions {
  Device device = kCpu;
  int threads = 1;  // main sets it to the cores this process may use, at most kMaxThreads
  uint64_t seed = 0;
  bool json = false;
  bool csv = false;  // never together with json
  bool quiet = false;
  std::vector<GivenFlag> given;
  std::string config_file;  // the config file in use; empty: none

  bool text() const { return !json && !csv; }
};

// Adds --device, --threads, --seed, --json, --csv and --quiet to `flags`; they write into `options`, which must outlive
// it.
void add_common_options(FlagSet& flags, CommonOptions& options);

// Throws UsageError where two flags contradict each other (the parser handles the flags before and after the verb
// separately), and, for verbs that compute, where the device cannot be used.
void check_common_options(const CommonOptions& options, bool computes);

// All of `text` as a number that fits, or nothing. CLI11 reads numbers with strtoull and strtoll, which accept -1 for
// an unsigned number and silently clamp numbers that do not fit.
template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A flag for any of the 2^64 seeds; its value now is the default that the help names.
Flag& add_seed(FlagSet& flags, const std::string& flag, uint64_t& seed, const std::string& help);

// For the check() of flags that take a time: finite, above zero, and short enough to be counted in nanoseconds.
std::string seconds_complaint(const std::string& text);

// "auto", "cpu", "cuda" or "cuda:i". Throws UsageError for anything else; whether the device exists is checked later.
Device parse_device(std::string_view text);

}  // namespace fk
