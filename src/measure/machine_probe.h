// MachineProbe: the two speeds no program here can exceed, measured in about a second so that a run can carry its own.
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
  double best = 0;    // the ceiling: use this one for floors
  double median = 0;  // what the machine gave most of the time; far below `best` when something else is running
  std::string how;    // what was done to measure it, instruction included
};

struct MachineProbe {
  int threads = 0;
  uint64_t read_size_bytes = 0;  // of the memory that was streamed
  Rate read_gbps;                // 10^9 bytes a second, all threads together
  Rate bf16_tflops;              // 10^12 operations a second, all threads together; a multiply-add is two
  Rate f32_tflops;
};

struct ProbeOptions {
  double budget_s = 1.5;  // aimed at; a machine under load gets the few extra passes a number needs
  // Memory to stream, at least 1 MiB a thread and written before (a page never written is not really there). Weights
  // that are loaded anyway are a good choice. Empty: the probe takes memory of its own and gives it back.
  std::span<const std::byte> memory;
  std::function<void(std::string_view)> progress;  // told what is being measured
};

// Runs on all threads of the pool.
MachineProbe probe_machine(ThreadPool& pool, const ProbeOptions& options = {});

Json to_json(const MachineProbe& probe);

}  // namespace fk
