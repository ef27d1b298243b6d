// RunnerProcess: the judge's end of a runner. Asks one thing at a time; the first failure is final.
//
// The runner is traced (tracer.h): all its threads are stopped whenever it has nothing to do for us. Calls are made
// between two stops, and the time between these, by our clock, is their time, whatever the process did with it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "candidate/runner/kept_output.h"
#include "candidate/runner/order.h"
#include "candidate/runner/process_state.h"
#include "candidate/runner/sandbox.h"
#include "candidate/runner/shared_tensors.h"
#include "candidate/runner/tracer.h"
#include "candidate/verdict.h"
#include "core/device.h"
#include "core/json_fwd.h"
#include "core/undo_at_end.h"
#include "ops/fields.h"

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
  bool wait_until_open = true;         // else it opens when it is first used: several that start together start sooner
  const KeptOutput* output = nullptr;  // what it prints goes there; null: nowhere
};

// A tensor of a mapped segment.
struct TensorRef {
  int segment = 0;
  size_t tensor = 0;
};

// Which tensors one call takes.
struct CallPlan {
  std::vector<std::optional<TensorRef>> args;
  std::vector<TensorRef> states;  // of the context
  struct Group {
    int64_t num_sequences = 0, num_tokens = 0;
    std::vector<TensorRef> views;  // cu_seqlens_q, cu_seqlens_k, seq_lens, block_table, state_slots
  };
  struct Metadata {
    Group decode, prefill;
    TensorRef slot_mapping;
    int64_t page_size = 0;
  };
  std::optional<Metadata> metadata;  // of the batch, where there are states
};

// How calls are to be made.
struct RunMode {
  bool nothing = false;  // on the CPU: leave the kernels out, to see what a sample takes besides
  // On a GPU only.
  uint64_t key = 0;   // unmasks the inputs
  bool hold = true;   // everything is queued before the device starts on it
  bool cold = false;  // the L2 cache holds other data before each call
};

struct RunTimes {
  int64_t ns = 0;         // from when the first thread was let go until the last one had stopped, the exchange included
  int64_t switches = 0;   // involuntary context switches meanwhile
  int64_t waited_ns = 0;  // its threads waited for a core meanwhile, where the kernel says
  int64_t cpu_ns = 0;     // they used meanwhile, all together
  int threads = 0;        // it has
  int64_t peak_kib = 0;
  std::optional<Failure> refused;  // by the candidate: nothing ran, and the process is as it was
  // On a GPU only.
  int64_t device_ns = 0;          // of the calls, by the device's events: the candidate's process reads them
  std::vector<uint64_t> at_stop;  // fingerprints of all that was written, taken in stream order behind the calls
  double clock_mhz = 0;           // of the multiprocessors; zero: not known
  bool held = false;              // until all was queued

  // Whether other programs had one of its cores for long enough to matter. `exchange_ns`: what of `ns` is typically
  // spent on waking and stopping the process.
  bool core_was_taken(int cores, double exchange_ns = 0) const;
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

  // Waits until the worker could load the candidate: its driver, if it has one, is there.
  void wait_for_start();
  // Has it loaded.
  void open();

  // Empty as long as everything went well; every function below does nothing more once there is one.
  const std::optional<Failure>& failure() const { return failure_; }
  const std::vector<Protection>& protections() const { return protections_; }

  int map(const SharedTensors& tensors);  // must outlive the mapping
  void unmap(int segment);
  int64_t bind(std::span<const TensorRef> params);  // returns the time of prepare in ns
  // Calls get the numbers from 0 on; those known before are forgotten.
  void plan(std::span<const CallPlan> calls);
  // Whether the candidate says that it takes no such call; nothing runs.
  std::optional<Failure> refusal(int id);
  // Makes the calls. On the CPU their inputs may be written before this: the process is stopped and cannot look. On
  // return it is stopped again, so that nothing it wrote can change before the next request.
  RunTimes run(std::span<const int> calls, const RunMode& mode = {});
  // On a GPU: fills a tensor of a mapped segment with a pattern, to see whether memory is really shared.
  void touch(const TensorRef& tensor, uint8_t pattern);

  // What the process changed about itself since before it loaded the candidate, if anything (process_state.h).
  std::optional<Failure> check_state(bool thorough);

  // Which implementation took which call of the operator and of those below it, since the process started. By the
  // runner's own account: for people to read, and not for the verdict.
  std::vector<RunnerDispatch> dispatches();

  // Lets it run for a while with nothing to do.
  void let_run(int64_t ns);

  // Lets the worker end by itself; a crash on the way out is a failure too. The first only tells it to, so that several
  // end together; nothing else may be asked of it then.
  void begin_finish();
  void finish();

  void fail(Failure failure);  // what the judge found; ends the process

 private:
  Json ask(const Json& request, int fd = -1);
  bool send(Json request, int fd = -1);
  Json answer();
  std::optional<Json> next_message(int64_t deadline_ns);
  void read_answer(const Json& body);
  int64_t number(const Json& answer, const char* name);  // zero, and a failure, where there is none
  RunTimes carry_out(Order order, std::span<const int> entries);
  void read_device_times(RunTimes& times);
  void look_at_state();
  bool has_untraced_thread() const;
  bool resume_until_trap();  // false where that was the end
  int64_t deadline() const;
  void start(const RunnerOptions& options);
  void attach();
  void explain_end();
  void explain_fault(const Tracer::Fault& fault);
  std::string at_line(uint64_t code) const;  // " at rms_norm.cpp:12", or nothing
  int patience_ms() const;
  void stop();

  RunnerOptions options_;
  std::string private_tmp_;
  UndoAtEnd folder_, process_;
  pid_t pid_ = -1, worker_pid_ = -1;
  int channel_ = -1, status_pipe_ = -1;
  uint64_t nonce_;
  int next_segment_ = 0;
  struct Segment {
    const SharedTensors* tensors = nullptr;
    uint64_t address = 0;  // in the worker
  };
  std::map<int, Segment> segments_;
  std::unique_ptr<SharedTensors> order_;  // what the worker is to do when it is let go
  std::unique_ptr<Tracer> tracer_;
  uint64_t library_base_ = 0;  // in the worker
  ProcessState at_start_;
  ProcessState seen_;                   // when it stopped last
  int64_t waited_ns_ = 0, cpu_ns_ = 0;  // likewise: its threads have waited for a core, and had one, so long
  std::string doing_ = "at load";
  bool ending_ = false;
  std::vector<Protection> protections_;
  std::optional<Failure> failure_;
};

}  // namespace fk
