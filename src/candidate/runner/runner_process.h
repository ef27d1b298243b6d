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
#include "core/device.h"
#include "core/undo_at_end.h"

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
  Device device = kCpu;                           // where the operator runs
  Walls walls = Walls::kAll;                      // on a GPU: what its driver works behind (device_walls.h)
  bool wait_until_open = true;  // else open() is to be called: several that start together start sooner
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

// How calls are to be made; all of it concerns GPUs only.
struct RunMode {
  uint64_t key = 0;   // unmasks the inputs
  bool hold = true;   // everything is queued before the device starts on it
  bool cold = false;  // the L2 cache holds other data before each call
};

struct RunTimes {
  int64_t runner_ns = 0;  // by the runner's clock (on a GPU: the device's), all calls together
  int64_t wall_ns = 0;    // by ours, the exchange included; on a GPU without the time it took to queue the work
  int64_t switches = 0;   // involuntary context switches meanwhile
  int64_t peak_kib = 0;
  std::optional<Failure> refused;  // by the candidate: nothing ran, and the process is as it was
  // On a GPU only.
  std::vector<uint64_t> at_stop;  // fingerprints of all that was written, taken in stream order behind the calls
  double clock_mhz = 0;           // of the multiprocessors; zero: not known
  bool held = false;              // until all was queued
};

// As ops/node.h counts them, from another process.
struct RunnerDispatch {
  std::string op, implementation;
  int64_t rows_up_to = 0, calls = 0;
};

class RunnerProcess {
 public:
  explicit RunnerProcess(const RunnerOptions& options);
  ~RunnerProcess();
  RunnerProcess(const RunnerProcess&) = delete;
  RunnerProcess& operator=(const RunnerProcess&) = delete;

  // Waits until the worker has loaded what it needs, where the constructor did not.
  void open();

  // Empty as long as everything went well; every function below does nothing more once there is one.
  const std::optional<Failure>& failure() const { return failure_; }
  const std::vector<Protection>& protections() const { return protections_; }

  int map(const SharedTensors& tensors);  // must outlive the mapping
  void unmap(int segment);
  int64_t bind(std::span<const TensorRef> params);  // returns the time of prepare in ns
  void plan(int id, const CallPlan& call);
  // Whether the candidate says that it takes no such call; nothing runs.
  std::optional<Failure> refusal(int id);
  RunTimes run(std::span<const int> calls, const RunMode& mode = {});
  // On a GPU: fills a tensor of a mapped segment with a pattern, to see whether memory is really shared.
  void touch(const TensorRef& tensor, uint8_t pattern);

  // Which implementation took which call of the operator and of those below it, since the process started. By the
  // runner's own account: for people to read, and not for the verdict.
  std::vector<RunnerDispatch> dispatches();

  // CPU time all threads of the worker have used, by the kernel's account; and the time they waited for a core, where
  // it says.
  int64_t cpu_time_ns() const;
  std::optional<int64_t> waited_ns() const;

  // Waits until no thread of the worker runs. A failure where some go on. A run that follows fails where some have
  // worked in between.
  std::optional<Failure> wait_for_rest();

  // Lets the worker end by itself; a crash on the way out is a failure too.
  void finish();

  void fail(Failure failure);  // what the judge found; ends the process

 private:
  Json ask(const Json& request, int fd = -1);
  bool send(Json request, int fd = -1);
  Json answer();
  void read_answer(const Json& body);
  int64_t number(const Json& answer, const char* name);  // zero, and a failure, where there is none
  RunTimes run_on_device(const Json& calls, const RunMode& mode);
  bool at_work() const;  // some thread runs, or would if it had a core
  void start(const RunnerOptions& options);
  void explain_end();
  int patience_ms() const;
  void stop();

  RunnerOptions options_;
  std::string private_tmp_;
  UndoAtEnd folder_, process_;
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
