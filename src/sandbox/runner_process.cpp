#include "sandbox/runner_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "candidate/private_folder.h"
#include "candidate/source_place.h"
#include "core/check.h"
#include "core/error.h"
#include "core/json.h"
#include "core/printable.h"
#include "measure/core_wait.h"
#include "measure/small_file.h"
#include "measure/timer.h"
#include "sandbox/address_layout.h"
#include "sandbox/message.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

// In the folder of this program, or one folder up (for the tests); FASTKERNELS_RUNNER overrides it.
std::string runner_path() {
  if (const char* named = getenv("FASTKERNELS_RUNNER")) return named;
  fs::path own = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& folder : {own, own.parent_path()})
    if (fs::path path = folder / "fastkernels-runner"; fs::exists(path)) return path;
  throw Error("fastkernels-runner is not beside this program ({}); build or install it again.", own.string());
}

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

// A failure from a GPU's error message. Accesses beyond the margins around tensors are out of bounds.
Failure device_failure(const std::string& words, const std::string& doing) {
  auto has = [&](std::string_view part) { return words.find(part) != std::string::npos; };
  if (has("cudaErrorIllegalAddress"))
    return {Verdict::kOutOfBounds,
            fmt::format("Its kernel accessed memory outside all allocations, {} (illegal address).", doing)};
  if (has("cudaErrorMemoryAllocation") || has("out of memory"))
    return {Verdict::kOutOfMemory, fmt::format("The GPU ran out of memory, {}.", doing)};
  return {Verdict::kCrashed, fmt::format("Its work on the GPU failed, {}: {}", doing, words)};
}

Json ref(const TensorRef& r) { return {r.segment, r.tensor}; }
Json group(const CallPlan::Group& g) {
  Json views = Json::array();
  for (const TensorRef& v : g.views) views.push_back(ref(v));
  return {{"sequences", g.num_sequences}, {"tokens", g.num_tokens}, {"views", views}};
}

// A candidate's own words, which could otherwise pretend to be lines of ours.
std::string in_one_line(std::string_view text) {
  constexpr size_t kMost = 255;
  std::string safe = printable(text.substr(0, kMost));
  return text.size() > kMost ? safe + " ..." : safe;
}

std::optional<Failure> refusal_in(const Json& answer) {
  auto refused = answer.find("refused");
  if (refused == answer.end() || !refused->is_string()) return std::nullopt;
  std::string why = in_one_line(refused->get<std::string>());
  return Failure{Verdict::kRefused, fmt::format("The candidate refuses this call: {}; a model would use the baseline.",
                                                why.empty() ? "it gives no reason" : why)};
}

// The first cores that this process may use.
std::vector<int> first_cores(int count) {
  cpu_set_t all;
  std::vector<int> first;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return first;
  for (int i = 0; i < CPU_SETSIZE && static_cast<int>(first.size()) < count; ++i)
    if (CPU_ISSET(i, &all)) first.push_back(i);
  return first;
}

}  // namespace

uint64_t secret_number() {
  uint64_t value = 0;
  if (getrandom(&value, sizeof value, 0) != sizeof value) throw Error("The system returned no random numbers.");
  return value;
}

RunnerProcess::RunnerProcess(const RunnerOptions& options) : options_(options), nonce_(secret_number()) {
  folder_.make([&] { private_tmp_ = make_private_tmp(); },
               [this] {
                 std::error_code ignored;
                 fs::remove_all(private_tmp_, ignored);
               });
  // A GPU's driver reserves far more than it uses.
  constexpr size_t kDriver = size_t{64} << 30;
  if (options.device != kCpu) options_.private_memory_bytes += kDriver;
  start(options);
  send({{"op", options.op},
        {"init", fields_to_json(options.init)},
        {"library", path_to_json(options.library)},
        {"empty", options.empty},
        {"threads", options.threads},
        {"memory_bytes", options_.private_memory_bytes},
        {"private_tmp", path_to_json(private_tmp_)},
        {"gpu", options.device == kCpu ? -1 : options.device.index},
        {"prints", options.output != nullptr},
        {"layout", options.layout},
        {"walls", static_cast<int>(options.walls)}});
  if (options.wait_until_open) open();
}

// Waits for the worker's hello message; the worker loads nothing before the next request.
void RunnerProcess::wait_for_start() {
  if (failure_ || worker_pid_ > 0) return;
  if (std::optional<Json> hello = next_message(deadline())) read_answer(*hello);
}

void RunnerProcess::open() {
  wait_for_start();
  if (failure_ || tracer_) return;
  attach();
  if (!send({{"do", "begin"}}) || !resume_until_trap()) return;
  at_start_ = read_process_state(worker_pid_, *tracer_, true);
  // The candidate's own threads get as many cores as the thread count; those of our pool are already pinned.
  if (options_.device == kCpu) tracer_->spread_over(first_cores(options_.threads));
  if (!resume_until_trap()) return;
  answer();
  if (failure_ || options_.op.empty()) return;
  library_base_ = library_base(worker_pid_, options_.library);
  order_ = std::make_unique<SharedTensors>(
      std::vector<SharedTensors::Named>{{"what to do", {{kOrderWords}, DType::kI32}}}, Access::kReadOnly);
  int segment = map(*order_);
  ask({{"do", "order"}, {"segment", segment}});
}

void RunnerProcess::attach() {
  tracer_ = std::make_unique<Tracer>();
  if (!tracer_->attach(worker_pid_))
    throw Error(
        "This system does not let the judge trace the processes it judges ({}), so they cannot be timed; allow ptrace: "
        "/proc/sys/kernel/yama/ptrace_scope must be 0 or 1, and a container needs a seccomp profile that has ptrace.",
        strerror(errno));
}

void RunnerProcess::start(const RunnerOptions&) {
  int channel[2], status[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel) != 0 || pipe2(status, O_CLOEXEC) != 0)
    throw Error("The channel to a runner could not be created ({}).", strerror(errno));
  int large = 8 << 20, yes = 1;
  for (int end : channel) setsockopt(end, SOL_SOCKET, SO_SNDBUF, &large, sizeof large);
  setsockopt(channel[0], SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  for (int words : {1, 2})
    if (options_.output != nullptr && options_.output->fd() >= 0)
      posix_spawn_file_actions_adddup2(&files, options_.output->fd(), words);
    else
      posix_spawn_file_actions_addopen(&files, words, "/dev/null", O_WRONLY, 0);
  // Via high numbers, since the descriptors may themselves be 3 or 4.
  constexpr int kParking = 200;
  posix_spawn_file_actions_adddup2(&files, channel[1], kParking);
  posix_spawn_file_actions_adddup2(&files, status[1], kParking + 1);
  posix_spawn_file_actions_adddup2(&files, kParking, 3);
  posix_spawn_file_actions_adddup2(&files, kParking + 1, 4);
  posix_spawn_file_actions_addclosefrom_np(&files, 5);
  // The same for baseline and candidate, so that the process cannot tell which one it is.
  std::string path = runner_path(), name = "fastkernels-runner", search = "PATH=/usr/bin:/bin",
              language = "LANG=C.UTF-8", no_rseq = "GLIBC_TUNABLES=glibc.pthread.rseq=0";  // seccomp.h says why
  std::string tmp = "TMPDIR=" + private_tmp_;
  char* argv[] = {name.data(), nullptr};
  // For libraries with their own threads: they would count only the one core that the first thread is pinned to.
  std::vector<std::string> more = {fmt::format("OMP_NUM_THREADS={}", options_.threads),
                                   fmt::format("OPENBLAS_NUM_THREADS={}", options_.threads)};
  // The same GPU by the same number, and the driver's library from where this process found it.
  if (options_.device != kCpu)
    for (const char* variable : {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LD_LIBRARY_PATH"})
      if (const char* value = getenv(variable)) more.push_back(fmt::format("{}={}", variable, value));
  std::vector<char*> env = {search.data(), language.data(), no_rseq.data(), tmp.data()};
  for (std::string& entry : more) env.push_back(entry.data());
  env.push_back(nullptr);
  // A process group of its own: Ctrl-C in the terminal is handled by the judge.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  int error = 0;
  process_.make(
      [&] {
        std::optional<FixedAddresses> fixed;
        if (options_.device == kCpu) fixed.emplace();
        error = posix_spawn(&pid_, path.c_str(), &files, &attributes, argv, env.data());
        if (error != 0) pid_ = -1;
      },
      [this] {
        if (pid_ <= 0) return;
        kill(pid_, SIGKILL);  // the others are killed with it
        waitpid(pid_, nullptr, 0);
      });
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  close(channel[1]);
  close(status[1]);
  channel_ = channel[0];
  status_pipe_ = status[0];
  if (error != 0) {
    stop();
    throw Error("The runner {} could not be started ({}).", path, strerror(error));
  }
}

RunnerProcess::~RunnerProcess() { stop(); }

void RunnerProcess::stop() {
  if (channel_ >= 0) close(channel_);
  if (status_pipe_ >= 0) close(status_pipe_);
  channel_ = status_pipe_ = -1;
  tracer_.reset();  // ends the worker
  process_.undo();
  if (worker_pid_ > 0) kill(worker_pid_, SIGKILL);
  pid_ = worker_pid_ = -1;
  folder_.undo();
}

void RunnerProcess::fail(Failure failure) {
  if (!failure_) failure_ = std::move(failure);
  stop();
}

Json RunnerProcess::ask(const Json& request, int fd) {
  if (!tracer_ && !ending_) open();
  if (failure_) return {};
  if (order_) *order_->view(0).ptr<int32_t>() = static_cast<int32_t>(Order::kMessage);
  if (!send(request, fd) || !resume_until_trap()) return {};
  if (options_.device == kCpu) look_at_state();  // changes by the calls of the next sample are counted from here
  return answer();
}

bool RunnerProcess::send(Json request, int fd) {
  if (failure_) return false;
  request["nonce"] = ++nonce_;
  if (send_message(channel_, request, fd)) return true;
  explain_end();
  return false;
}

int64_t RunnerProcess::deadline() const { return now_ns() + options_.timeout_ns; }

bool RunnerProcess::resume_until_trap(const std::function<void()>& at_trap) {
  if (failure_) return false;
  switch (tracer_->run(deadline(), at_trap)) {
    case Tracer::Stop::kTrap:
      return true;
    case Tracer::Stop::kFault:
      explain_fault(*tracer_->fault());
      return false;
    case Tracer::Stop::kTimedOut:
      fail({Verdict::kTimeout, fmt::format("It did not return {} within {:g} s.", doing_,
                                           static_cast<double>(options_.timeout_ns) * 1e-9)});
      return false;
    case Tracer::Stop::kEnded:
      explain_end();
  }
  return false;
}

// The answer to the last message; the worker stopped after sending it.
Json RunnerProcess::answer() {
  std::optional<Json> body = next_message(now_ns());
  if (!body) return {};
  read_answer(*body);
  return failure_ ? Json() : *body;
}

std::optional<Json> RunnerProcess::next_message(int64_t deadline_ns) {
  if (failure_) return std::nullopt;
  Message answer;
  Received got = receive_message(channel_, deadline_ns, answer);
  if (answer.fd >= 0) close(answer.fd);
  if (got == Received::kClosed) {
    explain_end();
    return std::nullopt;
  }
  const Json& body = answer.body;
  if (got != Received::kMessage || !body.is_object() || !body.contains("nonce") || body["nonce"] != nonce_) {
    fail(
        {Verdict::kTampered, fmt::format("A message on the runner's channel is not the runner's answer, {}.", doing_)});
    return std::nullopt;
  }
  if (worker_pid_ <= 0) worker_pid_ = answer.sender_pid;
  return body;
}

// Reads failures and protections from an answer. The candidate may have forged it, so any content is possible.
void RunnerProcess::read_answer(const Json& body) try {
  if (body.contains("protections"))
    for (const Json& p : body["protections"])
      protections_.push_back({p.at(0).get<std::string>(), p.at(1).get<bool>(), p.at(2).get<std::string>()});
  if (body.contains("out_of_memory"))
    fail({Verdict::kOutOfMemory, fmt::format("It asked for more than its {:.1f} GiB of memory, {}.",
                                             static_cast<double>(options_.private_memory_bytes) / 0x1p30, doing_)});
  else if (body.contains("device_error"))
    fail(device_failure(body["device_error"].get<std::string>(), doing_));
  else if (body.contains("kept_l2"))
    fail({Verdict::kRewardHack,
          "It left part of the L2 cache set aside for itself, where its data would outlive every other call."});
  else if (body.contains("error"))
    fail({Verdict::kCrashed, fmt::format("It threw, {}: {}", doing_, in_one_line(body["error"].get<std::string>()))});
} catch (const Json::exception&) {
  fail({Verdict::kTampered, fmt::format("The runner's answer has the wrong format, {}.", doing_)});
}

int64_t RunnerProcess::number(const Json& answer, const char* name) {
  if (failure_) return 0;
  if (auto found = answer.find(name); found != answer.end() && found->is_number_integer()) return found->get<int64_t>();
  fail({Verdict::kTampered, fmt::format("The runner's answer has the wrong format, {}.", doing_)});
  return 0;
}

// How long a process may take to end; a GPU's driver has much to free.
int RunnerProcess::patience_ms() const { return options_.device == kCpu ? 2'000 : 20'000; }

// The channel closed without an answer: finds out how the worker ended.
void RunnerProcess::explain_end() {
  std::array<long, 2> report{};
  pollfd waiting{status_pipe_, POLLIN, 0};
  bool known =
      poll(&waiting, 1, patience_ms()) > 0 && read(status_pipe_, report.data(), sizeof report) == sizeof report;
  auto status = static_cast<int>(report[0]);
  if (!known) return fail({Verdict::kTampered, fmt::format("Its process vanished {}.", doing_)});
  if (!WIFSIGNALED(status))
    return fail({Verdict::kTampered, fmt::format("It ended its process {} (exit code {}) instead of returning.", doing_,
                                                 WEXITSTATUS(status))});
  int number = WTERMSIG(status);
  if (number == SIGSYS)
    return fail({Verdict::kTampered,
                 fmt::format("It made a system call {} that kernels have no use for: a new process, the network, "
                             "another process's memory, or a change to the program that runs it.",
                             doing_)});
  auto limit = static_cast<double>(options_.private_memory_bytes);
  if (number == SIGKILL || static_cast<double>(report[1]) * 1024 > 0.7 * limit)
    return fail({Verdict::kOutOfMemory, fmt::format("It used {:.1f} GiB of memory {} and was ended.",
                                                    static_cast<double>(report[1]) / 0x1p20, doing_)});
  fail({Verdict::kCrashed, fmt::format("It crashed {} with {}{}.", doing_, signal_name(number),
                                       at_line(tracer_ ? tracer_->signal_code() : 0))});
}

std::string RunnerProcess::at_line(uint64_t code) const {
  if (library_base_ == 0 || code < library_base_) return "";
  std::string place = source_place(options_.library, code - library_base_, private_tmp_);
  return place.empty() ? "" : " at " + place;
}

// We see a fault before the candidate's own handlers do.
void RunnerProcess::explain_fault(const Tracer::Fault& fault) {
  for (const auto& [id, segment] : segments_) {
    if (fault.address < segment.address || segment.tensors->device() != kCpu) continue;
    TensorNeighbour at = tensor_near(segment.tensors->places(), fault.address - segment.address);
    if (!at.found) continue;
    const std::string& name = segment.tensors->name(at.tensor);
    std::string line = at_line(fault.code);
    if (at.inside && !fault.mapped)
      return fail(
          {Verdict::kOutOfBounds, fmt::format("A thread of its own used '{}' when there was no call{}.", name, line)});
    if (!at.inside)
      return fail({Verdict::kOutOfBounds, fmt::format("It touched memory just outside '{}'{}.", name, line)});
    return fail({Verdict::kInputMutated,
                 fmt::format("It wrote to '{}', which is read-only{}.", name, line.empty() ? "" : "," + line)});
  }
  auto limit = static_cast<double>(options_.private_memory_bytes);
  int64_t peak_kib = read_process_state(worker_pid_, *tracer_, false).peak_kib;
  if (static_cast<double>(peak_kib) * 1024 > 0.7 * limit)
    return fail({Verdict::kOutOfMemory, fmt::format("It used {:.1f} GiB of memory {} and could not get more.",
                                                    static_cast<double>(peak_kib) / 0x1p20, doing_)});
  fail({Verdict::kCrashed, fmt::format("It crashed {} with {} at address {:#x}{}.", doing_, signal_name(fault.signal),
                                       fault.address, at_line(fault.code))});
}

int RunnerProcess::map(const SharedTensors& tensors) {
  int segment = next_segment_++;
  doing_ = "while tensors were mapped";
  Json answer = ask({{"do", "map"},
                     {"segment", segment},
                     {"writable", tensors.access() == Access::kWritable},
                     {"gpu", tensors.device() != kCpu},
                     {"tensors", places_to_json(tensors.places())}},
                    tensors.fd());
  segments_[segment] = {&tensors, static_cast<uint64_t>(number(answer, "address"))};
  return segment;
}

void RunnerProcess::unmap(int segment) {
  ask({{"do", "unmap"}, {"segment", segment}});
  segments_.erase(segment);
}

int64_t RunnerProcess::bind(std::span<const TensorRef> params) {
  doing_ = "in prepare";
  Json list = Json::array();
  for (const TensorRef& p : params) list.push_back(ref(p));
  ask({{"do", "bind"}, {"params", list}});
  return failure_ ? 0 : tracer_->stopped_ns() - tracer_->started_ns();
}

void RunnerProcess::plan(std::span<const CallPlan> calls) {
  Json list = Json::array();
  for (const CallPlan& call : calls) {
    Json args = Json::array(), states = Json::array();
    for (const auto& a : call.args) args.push_back(a ? ref(*a) : Json());
    for (const TensorRef& t : call.states) states.push_back(ref(t));
    list.push_back({{"args", args}, {"states", states}});
    if (const auto& m = call.metadata)
      list.back()["attention"] = {{"decode", group(m->decode)},
                                  {"prefill", group(m->prefill)},
                                  {"slots", ref(m->slot_mapping)},
                                  {"page_size", m->page_size}};
  }
  doing_ = "in refuse";
  ask({{"do", "plan"}, {"calls", list}});
}

std::optional<Failure> RunnerProcess::refusal() {
  doing_ = "in refuse";
  return refusal_in(ask({{"do", "ask"}}));
}

void RunnerProcess::touch(const TensorRef& tensor, uint8_t pattern) {
  doing_ = "while shared memory was tried";
  ask({{"do", "touch"}, {"tensor", ref(tensor)}, {"pattern", pattern}});
}

std::vector<RunnerDispatch> RunnerProcess::dispatches() {
  doing_ = "while its calls were counted";
  Json answer = ask({{"do", "count"}});
  std::vector<RunnerDispatch> list;
  if (failure_) return list;
  try {
    for (const Json& d : answer.at("dispatches"))
      list.push_back(
          {d.at(0).get<std::string>(), d.at(1).get<std::string>(), d.at(2).get<int64_t>(), d.at(3).get<int64_t>()});
  } catch (const Json::exception&) {
    fail({Verdict::kTampered, fmt::format("The runner's answer has the wrong format, {}.", doing_)});
  }
  return list;
}

RunTimes RunnerProcess::run(std::span<const int> calls, const RunMode& mode) {
  doing_ = "in forward";
  if (options_.device == kCpu) return carry_out(Order::kCalls, calls, mode.at_return);
  // The work is queued behind a kernel that waits, and then released. Only the time after the release counts: inputs
  // are masked until then, so earlier work reads only masked data.
  Json ids = Json::array();
  for (int id : calls) ids.push_back(id);
  Json queued = ask({{"do", "queue"}, {"calls", ids}, {"key", mode.key}, {"hold", mode.hold}, {"cold", mode.cold}});
  if (std::optional<Failure> refused = refusal_in(queued)) {
    RunTimes times;
    times.refused = std::move(refused);
    return times;
  }
  RunTimes times = carry_out(Order::kGo, {});
  if (!times.refused) read_device_times(times);
  return times;
}

void RunnerProcess::look_at_state() {
  seen_ = read_process_state(worker_pid_, *tracer_, false);
  waited_ns_ = waited_for_cores_ns(worker_pid_).value_or(0);
  clockid_t clock;
  timespec used{};
  if (clock_getcpuclockid(worker_pid_, &clock) == 0 && clock_gettime(clock, &used) == 0)
    cpu_ns_ = int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
}

bool RunnerProcess::has_untraced_thread() const {
  std::error_code error;
  fs::directory_iterator task(fmt::format("/proc/{}/task", worker_pid_), error), end;
  for (; !error && task != end; task.increment(error)) {
    std::string text = small_file(task->path() / "status").value_or("TracerPid:\t1");
    if (text.find("TracerPid:\t0") != std::string::npos && text.find("State:\tZ") == std::string::npos) return true;
  }
  return false;
}

// Resumes the worker with an order and waits until it stops again. The worker never runs otherwise.
RunTimes RunnerProcess::carry_out(Order order, std::span<const int> entries, const std::function<void()>& at_return) {
  RunTimes times;
  if (!tracer_) open();
  if (failure_) return times;
  FK_CHECK(static_cast<int64_t>(entries.size()) <= kMostCalls);
  auto* words = order_->view(0).ptr<int32_t>();
  words[0] = static_cast<int32_t>(order);
  words[1] = static_cast<int32_t>(entries.size());
  std::copy(entries.begin(), entries.end(), words + 2);
  // The worker has not run since its state was last read; reading again would only evict other data from the caches.
  ProcessState before = std::move(seen_);
  int64_t waited = waited_ns_, cpu = cpu_ns_;
  bool came_back = resume_until_trap(at_return);
  times.ns = tracer_ ? tracer_->stopped_ns() - tracer_->started_ns() : 0;
  if (!came_back) return times;
  times.returned_ns = tracer_->trapped_ns() - tracer_->started_ns();
  look_at_state();
  // Every thread must be stopped. A thread that has just ended, or has just started and done nothing, may be counted
  // late.
  if (std::abs(seen_.threads - static_cast<int64_t>(seen_.cores.size())) > 0 && has_untraced_thread()) {
    fail({Verdict::kTampered, "It started a thread that cannot be stopped."});
    return times;
  }
  times.switches = seen_.switches - before.switches;
  times.waited_ns = waited_ns_ - waited;
  times.cpu_ns = cpu_ns_ - cpu;
  times.threads = static_cast<int>(seen_.cores.size());
  times.peak_kib = seen_.peak_kib, times.own_kib = seen_.own_kib;
  if (tracer_->trap_status() == 0) return times;
  // The reason, from the worker's answer; everything written since is ignored.
  times.refused = refusal_in(ask({{"do", "outcome"}}));
  if (!times.refused && !failure_)
    fail({Verdict::kTampered, "The runner stopped in the middle of its work without giving a reason."});
  return times;
}

void RunnerProcess::read_device_times(RunTimes& times) {
  Json answer = ask({{"do", "device times"}});
  if (failure_) return;
  try {
    times.device_ns = answer.at("ns").get<int64_t>();
    times.at_stop = answer.at("at_stop").get<std::vector<uint64_t>>();
    times.clock_mhz = answer.at("clock_mhz").get<double>();
    times.held = answer.at("held").get<bool>();
  } catch (const Json::exception&) {
    fail({Verdict::kTampered, "The runner's answer has the wrong format, in forward."});
  }
}

void RunnerProcess::let_run(int64_t ns) {
  int us = static_cast<int>(ns / 1000);
  carry_out(Order::kWait, std::span(&us, 1));
}

std::optional<Failure> RunnerProcess::check_state(bool thorough) {
  if (failure_ || options_.library.empty()) return std::nullopt;
  std::optional<std::string> changed =
      changed_state(at_start_, thorough ? read_process_state(worker_pid_, *tracer_, true) : seen_);
  // A GPU's driver has threads of its own, which come and go.
  if (!changed && options_.device == kCpu)
    for (const auto& [thread, cores] : at_start_.cores)
      if (!seen_.cores.contains(thread))
        changed =
            "It ended a thread of its process that it did not start: waking and stopping the others is quicker then.";
  if (!changed) return std::nullopt;
  return Failure{Verdict::kIncorrectState, *changed};
}

void RunnerProcess::begin_finish() {
  if (failure_ || ending_ || channel_ < 0) return;
  ending_ = true;
  doing_ = "while it ended";
  if (order_) *order_->view(0).ptr<int32_t>() = static_cast<int32_t>(Order::kMessage);
  shutdown(channel_, SHUT_RDWR);
  if (tracer_) tracer_->let_go();
}

void RunnerProcess::finish() {
  begin_finish();
  if (failure_ || channel_ < 0) return;
  if (!tracer_) return stop();  // it never loaded a candidate
  int64_t patience = int64_t{patience_ms()} * 1'000'000;
  switch (tracer_->run(now_ns() + patience)) {
    case Tracer::Stop::kFault:
      return explain_fault(*tracer_->fault());
    case Tracer::Stop::kTrap:
    case Tracer::Stop::kTimedOut:
      return fail(
          {Verdict::kTimeout, fmt::format("It did not end within {} s after its last call.", patience_ms() / 1000)});
    case Tracer::Stop::kEnded:
      break;
  }
  std::array<long, 2> report{};
  pollfd waiting{status_pipe_, POLLIN, 0};
  if (poll(&waiting, 1, patience_ms()) > 0 && read(status_pipe_, report.data(), sizeof report) == sizeof report &&
      WIFSIGNALED(static_cast<int>(report[0])))
    return fail({Verdict::kCrashed, fmt::format("It crashed while it ended with {}.",
                                                signal_name(WTERMSIG(static_cast<int>(report[0]))))});
  stop();
}

}  // namespace fk
