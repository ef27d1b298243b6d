#include "candidate/runner/worker.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "candidate/bridge.h"
#include "candidate/load.h"
#include "candidate/runner/device_calls.h"
#include "candidate/runner/loaded_memory.h"
#include "candidate/runner/message.h"
#include "candidate/runner/sandbox.h"
#include "candidate/runner/seccomp.h"
#include "measure/first_core.h"
#include "measure/timer.h"
#include "ops/materialize.h"

namespace fk {
namespace {

using Segments = std::map<int, std::unique_ptr<MappedTensors>>;

// For the fault handler, which has no other way to them.
const Segments* g_segments = nullptr;
int g_channel = -1;

// Says which tensor a faulting address belongs to, then lets the fault end the process.
void report_fault(int signal, siginfo_t* info, void*) {
  char text[160];
  int length = 0;
  for (const auto& [id, segment] : *g_segments) {
    MappedTensors::Neighbour at = segment->neighbour(info->si_addr);
    if (!at.found) continue;
    length = snprintf(text, sizeof text, R"({"fault":{"segment":%d,"tensor":%zu,"inside":%s}})", id, at.tensor,
                      at.inside ? "true" : "false");
    break;
  }
  if (length > 0) {
    iovec part{text, static_cast<size_t>(length)};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    sendmsg(g_channel, &header, MSG_NOSIGNAL);
  }
  ::signal(signal, SIG_DFL);
}

void catch_faults() {
  static char stack[64 << 10];
  stack_t alternative{};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof stack;
  sigaltstack(&alternative, nullptr);
  struct sigaction action {};
  action.sa_sigaction = report_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

// How this thread rounds, and whether it keeps subnormal numbers: what a call must leave as it was.
uint64_t float_mode() {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr() & 0xFFC0;  // without the flags of what has happened
#elif defined(__aarch64__)
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
#else
  return 0;
#endif
}

Device device_in(const Json& open) {
  int gpu = open.at("gpu").get<int>();
  return gpu < 0 ? kCpu : Device{DeviceKind::kCuda, static_cast<int8_t>(gpu)};
}

struct PreparedCall {
  std::vector<OptView> args;
  std::vector<KvLayer> kv_cache;
  AttentionMetadata attention;
};

class Worker {
 public:
  // `restrict_calls`: puts up the last wall, behind which everything of the candidate runs.
  Worker(int channel, const Json& open, const std::function<void()>& restrict_calls)
      : channel_(channel), device_(device_in(open)), arena_(device_) {
    g_segments = &segments_;
    g_channel = channel;
    catch_faults();
    if (device_ != kCpu) device_calls_.emplace(device_);
    auto name = open.at("op").get<std::string>();
    if (name.empty()) {  // a trial of the walls
      restrict_calls();
      return;
    }
    op_ = &Registry::instance().at(name);
    pool_ = std::make_unique<ThreadPool>(open.at("threads").get<int>());  // before pinning: it looks at our cores
    if (device_ == kCpu) {                                                // a driver's threads need cores of their own
      pin_to_first_core();
      forbid_other_cores();
    }
    restrict_calls();
    auto library = open.at("library").get<std::string>();
    if (!library.empty()) {
      candidate_ = load_candidate(library, *op_);
      Registry::instance().add_foreign(op_->name, "candidate", device_.kind, candidate_);
    }
    root_ = op_->build(fields_from_json(open.at("init")), {.device = device_});
  }

  Json handle(const Message& request) {
    const Json& body = request.body;
    auto what = body.at("do").get<std::string>();
    if (what == "map") return map(request);
    if (what == "unmap") return unmap(body);
    if (what == "bind") return bind(body);
    if (what == "plan") return plan(body);
    if (what == "ask") return ask(body);
    if (what == "run") return run(body);
    if (what == "queue") return queue(body);
    if (what == "go") return go();
    if (what == "touch") return touch(body);
    if (what == "count") return count();
    throw Error("The runner does not know '{}'.", what);
  }

 private:
  View at(const Json& place) const { return segments_.at(place.at(0).get<int>())->view(place.at(1).get<size_t>()); }
  OptView maybe_at(const Json& place) const { return place.is_null() ? std::nullopt : OptView(at(place)); }

  Json map(const Message& request) {
    const Json& body = request.body;
    segments_[body.at("segment").get<int>()] =
        std::make_unique<MappedTensors>(request.fd, places_from_json(body.at("tensors")),
                                        body.at("writable").get<bool>() ? Access::kWritable : Access::kReadOnly,
                                        body.at("gpu").get<bool>() ? device_ : kCpu);
    return Json::object();
  }

  Json unmap(const Json& body) {
    int segment = body.at("segment").get<int>();
    calls_.clear();
    segments_.erase(segment);
    return Json::object();
  }

  Json bind(const Json& body) {
    std::map<std::string, View> weights;
    std::vector<ParamSpec> wanted = collect_params(*root_);
    const Json& places = body.at("params");
    for (size_t i = 0; i < wanted.size(); ++i) weights[wanted[i].name] = at(places.at(i));
    Stopwatch watch;
    root_->bind([&](const std::string& name) { return weights.at(name); });
    if (device_calls_) device_runtime(device_).judging().synchronize_all();
    return {{"ns", watch.elapsed_ns()}};
  }

  Json plan(const Json& body) {
    PreparedCall call;
    for (const Json& place : body.at("args")) call.args.push_back(maybe_at(place));
    const Json& kv = body.at("kv");
    for (size_t i = 0; i + 1 < kv.size(); i += 2) call.kv_cache.push_back({at(kv[i]), at(kv[i + 1])});
    auto group = [&](const Json& g) {
      const Json& v = g.at("views");
      return SequenceGroup{
          g.at("sequences").get<int64_t>(), g.at("tokens").get<int64_t>(), at(v[0]), at(v[1]), at(v[2]), at(v[3])};
    };
    const Json& attention = body.at("attention");
    call.attention = {group(attention.at("decode")), group(attention.at("prefill")), at(attention.at("slots"))};
    calls_[body.at("id").get<int>()] = std::move(call);
    return Json::object();
  }

  // Whether the candidate would take a call, before it is made.
  Json ask(const Json& body) {
    if (!candidate_) return Json::object();
    std::unique_ptr<ForeignOperator> object = candidate_->create(root_->init());
    std::string_view why = object->refuse(calls_.at(body.at("id").get<int>()).args);
    return why.empty() ? Json::object() : Json{{"refused", why}};
  }

  int64_t candidate_calls() const {
    std::vector<DispatchCount> counts;
    root_->count_dispatches(counts);
    int64_t n = 0;
    for (const DispatchCount& c : counts)
      if (c.implementation == "candidate") n += c.calls;
    return n;
  }

  Json run(const Json& body) {
    std::vector<PreparedCall*> calls = calls_in(body);
    int64_t before = candidate_calls();  // on both sides, so that both exchanges take equally long
    uint64_t mode = float_mode();
    // Who sent the request shares this core and was interrupted by us before it could lie down; it would do so in the
    // middle of a long call.
    sched_yield();
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    long switches = usage.ru_nivcsw;
    int64_t start = now_ns();
    for (PreparedCall* call : calls) make_call(*call);
    int64_t ns = now_ns() - start;
    getrusage(RUSAGE_SELF, &usage);
    if (float_mode() != mode) return {{"mode_changed", true}};
    if (refused(before, calls)) return refusal(calls);
    return {{"ns", ns}, {"switches", usage.ru_nivcsw - switches}, {"peak_kib", usage.ru_maxrss}};
  }

  std::vector<PreparedCall*> calls_in(const Json& body) {
    std::vector<PreparedCall*> calls;
    for (const Json& id : body.at("calls")) calls.push_back(&calls_.at(id.get<int>()));
    return calls;
  }

  void make_call(PreparedCall& call) {
    arena_.reset();
    Context ctx{.pool = *pool_,
                .arena = arena_,
                .attention = &call.attention,
                .kv_cache = call.kv_cache,
                .stream = device_calls_ ? device_runtime(device_).stream() : nullptr};
    root_->call(ctx, call.args);
  }

  bool refused(int64_t before, const std::vector<PreparedCall*>& calls) const {
    return candidate_ && candidate_calls() - before != static_cast<int64_t>(calls.size());
  }
  Json refusal(const std::vector<PreparedCall*>& calls) const {
    return {{"refused", candidate_->create(root_->init())->refuse(calls.front()->args)}};
  }

  DeviceCall device_call(PreparedCall& call) {
    DeviceCall made;
    for (size_t i = 0; i < call.args.size(); ++i)
      if (call.args[i])
        (op_->args[i].role == Role::kInput ? made.inputs : made.written).push_back(range_of(*call.args[i]));
    for (const KvLayer& layer : call.kv_cache)
      for (const View& v : {layer.key, layer.value}) made.written.push_back(range_of(v));
    const AttentionMetadata& m = call.attention;
    for (const SequenceGroup* g : {&m.decode, &m.prefill})
      for (const View& v : {g->cu_seqlens_q, g->cu_seqlens_k, g->seq_lens, g->block_table})
        made.inputs.push_back(range_of(v));
    made.inputs.push_back(range_of(m.slot_mapping));
    made.forward = [this, &call] { make_call(call); };
    return made;
  }

  Json queue(const Json& body) {
    queued_ = calls_in(body);
    queued_mode_ = float_mode();
    taken_before_ = candidate_calls();
    std::vector<DeviceCall> calls;
    for (PreparedCall* call : queued_) calls.push_back(device_call(*call));
    device_calls_->queue(std::move(calls), {.key = body.at("key").get<uint64_t>(),
                                            .hold = body.at("hold").get<bool>(),
                                            .cold = body.at("cold").get<bool>()});
    return Json::object();
  }

  Json go() {
    DeviceTimes times = device_calls_->go();
    if (float_mode() != queued_mode_) return {{"mode_changed", true}};
    if (refused(taken_before_, queued_)) return refusal(queued_);
    if (times.kept_l2) return {{"kept_l2", true}};
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return {{"ns", times.ns},
            {"at_stop", times.at_stop},
            {"held", times.held},
            {"clock_mhz", times.clock_mhz},
            {"peak_kib", usage.ru_maxrss}};
  }

  Json count() const {
    Json list = Json::array();
    for (const DispatchCount& c : collect_dispatches(*root_))
      list.push_back({c.op, c.implementation, c.rows_up_to, c.calls});
    return {{"dispatches", list}};
  }

  Json touch(const Json& body) {
    View v = at(body.at("tensor"));
    device_runtime(device_).fill(v.data(), std::byte{body.at("pattern").get<uint8_t>()}, v.size_bytes());
    device_runtime(device_).judging().synchronize_all();
    return Json::object();
  }

  int channel_;
  Device device_;
  const OperatorInfo* op_ = nullptr;
  std::shared_ptr<const ForeignKernel> candidate_;  // null: the baseline
  Segments segments_;
  std::unique_ptr<ThreadPool> pool_;
  Arena arena_;
  std::unique_ptr<Node> root_;
  std::map<int, PreparedCall> calls_;
  std::optional<DeviceCalls> device_calls_;  // on a GPU only
  std::vector<PreparedCall*> queued_;
  uint64_t queued_mode_ = 0;
  int64_t taken_before_ = 0;
};

Json error_answer(const std::exception& e) {
  std::string_view words = e.what();
  if (words.find("failed on the GPU") != std::string_view::npos) return {{"device_error", words}};  // ours, or cuda's
  bool out_of_memory =
      dynamic_cast<const std::bad_alloc*>(&e) != nullptr || dynamic_cast<const CandidateOutOfMemory*>(&e) != nullptr;
  return {{out_of_memory ? "out_of_memory" : "error", e.what()}};
}

}  // namespace

int serve_requests(int channel, const Json& open) {
  SandboxLimits limits;
  limits.private_memory_bytes = open.at("memory_bytes").get<size_t>();
  limits.private_tmp = open.at("private_tmp").get<std::string>();
  if (auto library = open.at("library").get<std::string>(); !library.empty()) limits.readable.push_back(library);
  Json protections = Json::array();
  // A driver starts by opening half the system; what it needs afterwards it may have.
  if (Device device = device_in(open); device != kCpu) {
    limits.drives_gpu = true;
    limits.walls = static_cast<Walls>(open.at("walls").get<int>());
    try {
      device_runtime(device).judging().synchronize_all();
    } catch (const std::exception& e) {
      Json answer = error_answer(e);
      answer["nonce"] = open.at("nonce");
      send_message(channel, answer);
      return 1;
    }
  }
  auto say = [&](const Protection& p) { protections.push_back({p.name, p.on, p.why}); };
  const std::vector<AddressRange> ours = loaded_memory();
  for (const Protection& p : restrict_self(limits)) say(p);

  std::unique_ptr<Worker> worker;
  Json answer;
  try {
    worker = std::make_unique<Worker>(channel, open, [&] { say(restrict_system_calls(limits, ours)); });
    answer = Json::object();
  } catch (const std::exception& e) {
    answer = error_answer(e);
  }
  answer["nonce"] = open.at("nonce");
  answer["protections"] = protections;
  if (!send_message(channel, answer) || !worker) return 1;
  for (;;) {
    Message request;
    if (receive_message(channel, -1, request) != Received::kMessage) return 0;
    try {
      answer = worker->handle(request);
    } catch (const std::exception& e) {
      answer = error_answer(e);
    }
    answer["nonce"] = request.body.at("nonce");
    if (!send_message(channel, answer)) return 0;
  }
}

}  // namespace fk
