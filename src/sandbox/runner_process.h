// RunnerProcess: the judge's side of a runner. Makes one request at a time; the first failure is final.
//
// The runner is traced (tracer.h): all its threads are stopped between requests. Calls run between two stops, and the
// time between them, by our clock, is the time of the calls, whatever the process did meanwhile.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "candidate/verdict.h"
#include "candidate/walls.h"
#include "core/device.h"
#include "core/json_fwd.h"
#include "core/undo_at_end.h"
#include "ops/fields.h"
#include "sandbox/kept_output.h"
#include "sandbox/order.h"
#include "sandbox/process_state.h"
#include "sandbox/shared_tensors.h"
#include "sandbox/tracer.h"

namespace fk {

// From the system's random generator, so that it cannot be predicted.
uint64_t secret_number();

struct RunnerOptions {
  std::string op;
  Fields init;
  std::string library;  // the candidate's shared object; empty: the baseline
  bool empty = false;   // a candidate that computes nothing instead, to measure the overhead of a sample
  int threads = 1;
  size_t private_memory_bytes = size_t{8} << 30;
  int64_t timeout_ns = int64_t{30} * 1000000000;  // of one request
  Device device = kCpu;                           // where the operator runs
  Walls walls = Walls::kAll;                      // on a GPU: those its driver works with (device_walls.h)
  bool wait_until_open = true;         // false: it opens on first use, so that several runners start in parallel
  const KeptOutput* output = nullptr;  // receives its output; null: the output is discarded
  uint64_t layout = 0;                 // where stack and tensors lie (address_layout.h), which affects times
};

// A tensor of a mapped segment.
struct TensorRef {
  int segment = 0;
  size_t tensor = 0;
};

// The tensors of one call.
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
  std::optional<Metadata> metadata;  // of the batch, if there are states
};

// How calls are to be made.
struct RunMode {
  std::function<void()> at_return = {};  // on the CPU: called when the calls have returned, before threads are stopped
  // On a GPU only.
  uint64_t key = 0;   // unmasks the inputs
  bool hold = true;   // everything is queued before the device starts
  bool cold = false;  // the L2 cache is filled with other data before each call
};

struct RunTimes {
  int64_t ns = 0;           // from resuming the first thread until the last one has stopped, overhead included
  int64_t returned_ns = 0;  // the same until the calls had returned: other threads may have run a little longer
  int64_t switches = 0;     // involuntary context switches in this time
  int64_t waited_ns = 0;    // time its threads waited for a core, if the kernel counts it
  int64_t cpu_ns = 0;       // CPU time of all its threads together
  int threads = 0;          // number of its threads
  int64_t peak_kib = 0;
  int64_t own_kib = 0;             // memory that the process shares with nobody, afterwards
  std::optional<Failure> refused;  // by the candidate: nothing ran, and the process can be used further
  // On a GPU only.
  int64_t device_ns = 0;          // of the calls, by the device's events, which the candidate's process reads
  std::vector<uint64_t> at_stop;  // fingerprints of all written tensors, taken in stream order after the calls
  double clock_mhz = 0;           // of the multiprocessors; zero: unknown
  bool held = false;              // the device started after everything was queued

  // Whether other programs used one of its cores for long enough to matter. `exchange_ns`: the typical part of `ns` for
  // waking and stopping the process.
  bool core_was_taken(int cores, double exchange_ns = 0) const;
};

// Dispatch counts of ops/node.h, from another process.
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

  // Waits until the worker is ready to load the candidate and has started its GPU driver, if it uses one.
  void wait_for_start();
  // Loads the candidate.
  void open();

  // Empty if everything went well. After a failure all functions below do nothing.
  const std::optional<Failure>& failure() const { return failure_; }
  const std::vector<Protection>& protections() const { return protections_; }

  int map(const SharedTensors& tensors);  // must outlive the mapping
  void unmap(int segment);
  int64_t bind(std::span<const TensorRef> params);  // returns the time of prepare in ns
  // Calls are numbered from 0; earlier plans are discarded. Which implementation takes each one is decided here.
  void plan(std::span<const CallPlan> calls);
  // Whether the candidate refuses one of the planned calls now; nothing runs.
  std::optional<Failure> refusal();
  // Makes the calls. On the CPU their inputs may be written before this: the process is stopped and cannot read them.
  // On return it is stopped again, so that its outputs cannot change before the next request.
  RunTimes run(std::span<const int> calls, const RunMode& mode = {});
  // On a GPU: fills a tensor of a mapped segment with a pattern, to check that memory is really shared.
  void touch(const TensorRef& tensor, uint8_t pattern);

  // A failure if the process changed its state since before it loaded the candidate (process_state.h).
  std::optional<Failure> check_state(bool thorough);

  // Which implementation ran which call of the operator and its children, since the process started. Reported by the
  // runner itself: for information, not for the verdict.
  std::vector<RunnerDispatch> dispatches();

  // Lets the idle process run for a while.
  void let_run(int64_t ns);

  // The worker ends by itself; a crash while it ends is a failure too. begin_finish() only sends the request, so that
  // several workers end in parallel; no other request may follow.
  void begin_finish();
  void finish();

  void fail(Failure failure);  // a failure found by the judge; ends the process

 private:
  Json ask(const Json& request, int fd = -1);
  bool send(Json request, int fd = -1);
  Json answer();
  std::optional<Json> next_message(int64_t deadline_ns);
  void read_answer(const Json& body);
  int64_t number(const Json& answer, const char* name);  // zero, and a failure, if it is missing
  RunTimes carry_out(Order order, std::span<const int> entries, const std::function<void()>& at_return = {});
  void read_device_times(RunTimes& times);
  void look_at_state();
  bool has_untraced_thread() const;
  bool resume_until_trap(const std::function<void()>& at_trap = {});  // false if the process ended
  int64_t deadline() const;
  void start(const RunnerOptions& options);
  void attach();
  void explain_end();
  void explain_fault(const Tracer::Fault& fault);
  std::string at_line(uint64_t code) const;  // " at rms_norm.cpp:12", or empty
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
  std::unique_ptr<SharedTensors> order_;  // the order that the worker reads when it resumes
  std::unique_ptr<Tracer> tracer_;
  uint64_t library_base_ = 0;  // in the worker
  ProcessState at_start_;
  ProcessState seen_;                   // at the last stop
  int64_t waited_ns_ = 0, cpu_ns_ = 0;  // at the last stop: how long its threads had waited for a core and used one
  std::string doing_ = "at load";
  bool ending_ = false;
  std::vector<Protection> protections_;
  std::optional<Failure> failure_;
};

}  // namespace fk
