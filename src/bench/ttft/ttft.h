// ttft: measures a model's time to first token and time per token, or an encoder's time for a batch, and the limits of
// this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/model_executor.h"
#include "measure/machine_probe.h"
#include "ops/node.h"

namespace fk {

struct TtftOptions {
  int64_t prompt_tokens = 64;
  int64_t decode_tokens = 32;
  int64_t batch_size = 1;  // sequences, each with a prompt of its own
  int64_t iters = 3;
  int64_t warmups = 1;
  bool sequential = true;  // also feed the prompt one token at a time
  bool floors = true;      // also measure the limits of this machine
  uint64_t seed = 0;       // of the prompts; every iteration has its own
  // The prompt itself, the same in every iteration; empty: prompts are random. prompt_tokens is its length.
  std::vector<int64_t> prompt_ids = {};
  std::function<void(std::string_view)> progress = {};
};

// Times with their work. A floor is the slower of bytes and operations at the speeds measured around that iteration: on
// a shared machine speeds change by a factor of two within a second, so a time is only compared with its own floor.
struct TimedWork {
  std::vector<double> samples_ms;  // one per iteration
  std::vector<double> floors_ms;   // likewise; empty without floors
  double bytes = 0;                // least that must be read and written
  double flops = 0;                // of the matrix products

  double median_ms() const;
  double floor_ms() const;     // median; NaN without floors
  double floor_share() const;  // median of floor / time over the iterations; likewise
  double gbps() const { return bytes / median_ms() * 1e-6; }
  double tflops() const { return flops / median_ms() * 1e-9; }
};

struct TtftResult {
  TimedWork prefill;                    // all prompts, texts or images in one pass
  std::optional<TimedWork> sequential;  // the prompts token by token: the sum of its passes
  std::optional<TimedWork> decode;      // per step, sampling included: mean over the steps after a warm-up step
  MachineProbe machine;                 // the best seen in any probe of the run
  uint64_t peak_memory_bytes = 0;       // weights and all, until the last iteration; of the device where there is one
  std::vector<DispatchCount> dispatches;
};

// The prompts of one iteration, by sequence: the same in every process.
std::vector<std::vector<int64_t>> random_prompts(const TtftOptions& options, int64_t iteration, int64_t vocab_size);

// Throws UsageError for invalid options, before a model is loaded. run_ttft calls it too.
void check_options(const TtftOptions& options);

// What the model's task needs: one of the two below.
TtftResult run_ttft(const Model& model, ThreadPool& pool, const TtftOptions& options);
TtftResult run_causal_ttft(const Model& model, ThreadPool& pool, const TtftOptions& options);
// Only `prefill` is measured; prompt_tokens is the length of a text, and images have that of the model.
TtftResult run_encoder_ttft(const Model& model, ThreadPool& pool, const TtftOptions& options);

}  // namespace fk
