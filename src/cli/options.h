// The flags every verb takes, parsed once by main and handed to the verb that runs.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/device.h"

namespace fk {

inline constexpr int kMaxThreads = 256;

struct CommonOptions {
  Device device = kCpu;
  int threads = 1;  // main sets it to the cores this process may use, at most kMaxThreads
  uint64_t seed = 0;
  bool json = false;
  bool csv = false;  // never together with json
  bool quiet = false;

  bool text() const { return !json && !csv; }
};

// Adds --device, --threads, --seed, --json, --csv and --quiet to `app`; they write into `options`, which must outlive
// it.
void add_common_options(CLI::App& app, CommonOptions& options);

// Throws UsageError where two flags contradict each other (CLI11 sees one app at a time and cannot), and, for verbs
// that compute, where the device cannot be used.
void check_common_options(const CommonOptions& options, bool computes);

// "auto", "cpu", "cuda" or "cuda:i". Throws UsageError for anything else; whether the device is there is asked later.
Device parse_device(std::string_view text);

}  // namespace fk
