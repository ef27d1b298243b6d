// MachineProbe: measures peak memory bandwidth and peak arithmetic in about a second, short enough for every run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/json_fwd.h"
#include "core/thread_pool.h"

namespace fk {

struct Rate {
  double best = 0;    // the peak: use this one for floors
  double median = 0;  // typical value; far below `best` if something else is running
  std::string how;    // how it was measured, with the instruction
};

struct MachineProbe {
  int threads = 0;
  uint64_t read_size_bytes = 0;  // size of the memory that was read
  Rate read_gbps;                // 10^9 bytes per second, all threads together
  Rate bf16_tflops;              // 10^12 operations per second, all threads together; a multiply-add is two
  Rate f32_tflops;
};

struct ProbeOptions {
  double budget_s = 1.5;  // target; under load the probe takes a few passes more
  // Memory to read, at least 1 MiB per thread and written before (a page never written has no memory of its own).
  // Weights that are loaded anyway are a good choice. Empty: the probe allocates its own memory and frees it.
  std::span<const std::byte> memory;
  std::function<void(std::string_view)> progress;  // receives the name of each step
};

// Runs on all threads of the pool.
MachineProbe probe_machine(ThreadPool& pool, const ProbeOptions& options = {});

Json to_json(const MachineProbe& probe);

}  // namespace fk
