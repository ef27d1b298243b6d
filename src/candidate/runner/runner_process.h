// RunnerProcess: the judge's end of a runner. Asks one thing at a time; the first failure is final.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "candidate/runner/message.h"
#include "candidate/runner/sandbox.h"
#include "candidate/verdict.h"

namespace fk {

// From the system, so that nobody can foresee it.
uint64_t secret_number();

struct RunnerOptions {
  std::string op;
  Fields init;
  std::string library;  // the candidate's shared object; empty: the baseline
  int threads = 1;
  size_t private_memory_bytes = size_t{8} << 30;
  int64_t timeout_ns = int64_t{30} * 1000000000;  // of one request
};

// A tensor of a mapped segment.
struct TensorRef {
  int segment = 0;
  size_t tensor = 0;
};

// Which tensors one call takes.
struct CallPlan {
  std::vector<std::optional<TensorRef>> args;
  std::vector<TensorRef> kv_cache;
  struct Group {
    int64_t num_sequences = 0, num_tokens = 0;
    std::vector<TensorRef> views;  // cu_seqlens_q, cu_seqlens_k, seq_lens, block_table
  };
  Group decode, prefill;
  TensorRef slot_mapping;
};

struct RunTimes {
  int64_t runner_ns = 0;  // by the runner's clock, all calls together
  int64_t wall_ns = 0;    // by ours, the exchange included
  int64_t switches = 0;   // involuntary context switches meanwhile
  int64_t peak_kib = 0;
  std::optional<Failure> refused;  // by the candidate: nothing ran, and the process is as it was
};

class RunnerProcess {
 public:
  explicit RunnerProcess(const RunnerOptions& options);
  ~RunnerProcess();
  RunnerProcess(const RunnerProcess&) = delete;
  RunnerProcess& operator=(const RunnerProcess&) = delete;

  // Empty as long as everything went well; every function below does nothing more once there is one.
  const std::optional<Failure>& failure() const { return failure_; }
  const std::vector<Protection>& protections() const { return protections_; }

  int map(const SharedTensors& tensors);  // must outlive the mapping
  void unmap(int segment);
  int64_t bind(std::span<const TensorRef> params);  // returns the time of prepare in ns
  void plan(int id, const CallPlan& call);
  // Whether the candidate says that it takes no such call; nothing runs.
  std::optional<Failure> refusal(int id);
  RunTimes run(std::span<const int> calls);

  // CPU time all threads of the worker have used, by the kernel's account.
  int64_t cpu_time_ns() const;

  // Waits until no thread of the worker runs. A failure where some go on. A run that follows fails where some have
  // worked in between.
  std::optional<Failure> wait_for_rest();

  // Lets the worker end by itself; a crash on the way out is a failure too.
  void finish();

  void fail(Failure failure);  // what the judge found; ends the process

 private:
  Json ask(Json request, int fd = -1);
  void read_answer(const Json& body);
  int64_t number(const Json& answer, const char* name);  // zero, and a failure, where there is none
  bool at_work() const;                                  // some thread runs, or would if it had a core
  void start(const RunnerOptions& options);
  void explain_end();
  void stop();

  RunnerOptions options_;
  std::string private_tmp_;
  pid_t pid_ = -1, worker_pid_ = -1;
  int channel_ = -1, status_pipe_ = -1;
  uint64_t nonce_;
  int64_t cpu_at_rest_ = -1;  // negative: not known to be at rest
  int next_segment_ = 0;
  int runs_ = 0, bursts_ = 0;  // requests to run, and those before which it had worked
  std::map<int, const SharedTensors*> segments_;
  Json fault_;
  std::string doing_ = "at load";
  std::vector<Protection> protections_;
  std::optional<Failure> failure_;
};

}  // namespace fk
