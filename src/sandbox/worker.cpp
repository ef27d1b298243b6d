#include "sandbox/worker.h"

#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "candidate/bridge.h"
#include "candidate/empty_kernel.h"
#include "candidate/load.h"
#include "candidate/seccomp.h"
#include "candidate/swap.h"
#include "candidate/walls.h"
#include "measure/first_core.h"
#include "ops/materialize.h"
#include "sandbox/address_layout.h"
#include "sandbox/device_calls.h"
#include "sandbox/loaded_memory.h"
#include "sandbox/message.h"
#include "sandbox/order.h"
#include "sandbox/tracer.h"

namespace fk {
namespace {

Protection no_restartable_sequences() {
  const bool off = !registers_restartable_sequences();
  return {"no restartable sequences", off, off ? "" : "the C library registers them in spite of GLIBC_TUNABLES"};
}

using Segments = std::map<int, std::unique_ptr<MappedTensors>>;

Device device_in(const Json& open) {
  int gpu = open.at("gpu").get<int>();
  return gpu < 0 ? kCpu : Device{DeviceKind::kCuda, static_cast<int8_t>(gpu)};
}

Json error_answer(const std::exception& e) {
  std::string_view words = e.what();
  // An error of our code or of CUDA.
  if (words.find("failed on the GPU") != std::string_view::npos) return {{"device_error", words}};
  bool out_of_memory =
      dynamic_cast<const std::bad_alloc*>(&e) != nullptr || dynamic_cast<const CandidateOutOfMemory*>(&e) != nullptr;
  return {{out_of_memory ? "out_of_memory" : "error", e.what()}};
}

// Everything that a call needs, so that a timed one only runs the kernel: what the runner does there, a candidate that
// makes its calls itself would save.
struct WorkerCall {
  std::vector<OptView> args;
  std::vector<View> states;
  std::optional<AttentionMetadata> attention;
  std::optional<Context> context;
  std::unique_ptr<ReadyCall> ready;  // none if the candidate refuses it
  std::string refusal;               // why
};

class Worker {
 public:
  // `restrict_calls`: installs the last protection, before any code of the candidate runs.
  Worker(const Json& open, const std::function<void()>& restrict_calls)
      : device_(device_in(open)), layout_(open.at("layout").get<uint64_t>()), arena_(device_) {
    if (device_ != kCpu) device_calls_.emplace(device_);
    auto name = open.at("op").get<std::string>();
    if (name.empty()) {  // a test of the protections
      restrict_calls();
      return;
    }
    op_ = &Registry::instance().at(name);
    // Before pinning: it counts the cores we may use.
    pool_ = std::make_unique<ThreadPool>(open.at("threads").get<int>());
    // The judge knows a new thread from its first stop, which a busy machine delays: the pool's threads must all have
    // run when the state of the process is stored.
    pool_->on_all([](int) {});
    if (device_ == kCpu) {  // a driver's threads need other cores
      pin_to_first_core();
      forbid_other_cores();
    }
    restrict_calls();
  }

  // Everything before this is our code; from here on the candidate's code runs too.
  void load(const Json& open) {
    if (op_ == nullptr) return;
    const std::string library = path_from_json(open.at("library"));
    if (!library.empty()) candidate_ = load_candidate(library, *op_);
    if (open.at("empty").get<bool>()) candidate_ = empty_kernel(*op_);
    BuildOptions options{.device = device_};
    if (candidate_) {
      // Nothing else can take a call here, so a candidate that refuses one never has it computed by the baseline.
      Registry::instance().add_foreign(op_->name, kCandidateName, device_.kind, candidate_);
      options.only_operator = op_->name;
      options.only_implementation = kCandidateName;
    }
    root_ = op_->build(fields_from_json(open.at("init")), options);
  }

  // None: read a message.
  std::optional<WorkerStatus> carry_out_order() {
    if (order_ == nullptr || static_cast<Order>(order_[0]) == Order::kMessage) return std::nullopt;
    std::span<const int32_t> entries(order_ + 2, static_cast<size_t>(order_[1]));
    try {
      return carry_out(static_cast<Order>(order_[0]), entries);
    } catch (const std::exception& e) {
      outcome_ = error_answer(e);
      return WorkerStatus::kThrew;
    }
  }

  Json handle(const Message& request) {
    const Json& body = request.body;
    auto what = body.at("do").get<std::string>();
    if (what == "map") return map(request);
    if (what == "unmap") return unmap(body);
    if (what == "bind") return bind(body);
    if (what == "plan") return plan(body);
    if (what == "ask") return ask();
    if (what == "order") return take_orders(body);
    if (what == "outcome") return outcome_;
    if (what == "queue") return queue(body);
    if (what == "device times") return device_times();
    if (what == "touch") return touch(body);
    if (what == "count") return count();
    throw Error("The runner does not know '{}'.", what);
  }

 private:
  View at(const Json& place) const { return segments_.at(place.at(0).get<int>())->view(place.at(1).get<size_t>()); }
  OptView maybe_at(const Json& place) const { return place.is_null() ? std::nullopt : OptView(at(place)); }

  Json map(const Message& request) {
    const Json& body = request.body;
    auto& segment = segments_[body.at("segment").get<int>()];
    segment = std::make_unique<MappedTensors>(request.fd, places_from_json(body.at("tensors")),
                                              body.at("writable").get<bool>() ? Access::kWritable : Access::kReadOnly,
                                              body.at("gpu").get<bool>() ? device_ : kCpu, layout_.next_tensors());
    layout_.tensors_end_at(segment->end());
    return {{"address", reinterpret_cast<uintptr_t>(segment->address())}};
  }

  Json take_orders(const Json& body) {
    order_ = segments_.at(body.at("segment").get<int>())->view(0).ptr<int32_t>();
    return Json::object();
  }

  Json unmap(const Json& body) {
    int segment = body.at("segment").get<int>();
    forget_calls();
    segments_.erase(segment);
    return Json::object();
  }

  Json bind(const Json& body) {
    std::map<std::string, View> weights;
    std::vector<ParamSpec> wanted = collect_params(*root_);
    const Json& places = body.at("params");
    for (size_t i = 0; i < wanted.size(); ++i) weights[wanted[i].name] = at(places.at(i));
    root_->bind([&](const std::string& name) { return weights.at(name); });
    if (device_calls_) device_runtime(device_).judging().synchronize_all();
    return Json::object();
  }

  Json plan(const Json& body) {
    forget_calls();
    for (const Json& call : body.at("calls")) {
      calls_.push_back(planned(call));
      ready_.push_back(calls_.back()->ready.get());
    }
    return Json::object();
  }

  void forget_calls() {
    ready_.clear();
    calls_.clear();
  }

  std::unique_ptr<WorkerCall> planned(const Json& body) {
    auto made = std::make_unique<WorkerCall>();
    WorkerCall& call = *made;
    for (const Json& place : body.at("args")) call.args.push_back(maybe_at(place));
    for (const Json& place : body.at("states")) call.states.push_back(at(place));
    auto group = [&](const Json& g) {
      const Json& v = g.at("views");
      return SequenceGroup{g.at("sequences").get<int64_t>(),
                           g.at("tokens").get<int64_t>(),
                           at(v[0]),
                           at(v[1]),
                           at(v[2]),
                           at(v[3]),
                           at(v[4])};
    };
    if (auto attention = body.find("attention"); attention != body.end())
      call.attention = {group(attention->at("decode")), group(attention->at("prefill")), at(attention->at("slots")),
                        attention->at("page_size").get<int64_t>()};
    call.context.emplace(Context{.pool = *pool_,
                                 .arena = arena_,
                                 .attention = call.attention ? &*call.attention : nullptr,
                                 .states = call.states,
                                 .stream = device_calls_ ? device_runtime(device_).stream() : nullptr});
    call.ready = root_->ready(*call.context, call.args, call.refusal);
    if (!candidate_) FK_CHECK(call.ready != nullptr, "the baseline takes every call");
    return made;
  }

  // Whether the candidate refuses one of the planned calls, now.
  Json ask() {
    for (const auto& call : calls_)
      if (std::string why = candidate_ ? root_->refusal(call->args) : std::string(); !why.empty()) return refusal(why);
    return Json::object();
  }

  WorkerStatus carry_out(Order order, std::span<const int32_t> entries) {
    if (order == Order::kGo) return go();
    if (order == Order::kWait) {
      std::this_thread::sleep_for(std::chrono::microseconds(entries[0]));
      return WorkerStatus::kDone;
    }
    for (int32_t id : entries) {
      ReadyCall* call = ready_.at(static_cast<size_t>(id));
      if (call == nullptr) {
        outcome_ = refusal(calls_[static_cast<size_t>(id)]->refusal);
        return WorkerStatus::kRefused;
      }
      make(*call);
    }
    return WorkerStatus::kDone;
  }

  void make(ReadyCall& call) {
    arena_.reset();
    call.make();
  }

  static Json refusal(const std::string& why) {
    constexpr size_t kLongest = 4096;  // an answer has to fit into a message
    return {{"refused", why.substr(0, kLongest)}};
  }

  DeviceCall device_call(WorkerCall& call) {
    DeviceCall made;
    for (size_t i = 0; i < call.args.size(); ++i)
      if (call.args[i])
        (op_->args[i].role == Role::kInput ? made.inputs : made.written).push_back(range_of(*call.args[i]));
    for (const View& v : call.states) made.written.push_back(range_of(v));
    if (const auto& m = call.attention) {
      for (const SequenceGroup* g : {&m->decode, &m->prefill})
        for (const View& v : {g->cu_seqlens_q, g->cu_seqlens_k, g->seq_lens, g->block_table, g->state_slots})
          made.inputs.push_back(range_of(v));
      made.inputs.push_back(range_of(m->slot_mapping));
    }
    made.forward = [this, &call] { make(*call.ready); };
    return made;
  }

  Json queue(const Json& body) {
    std::vector<DeviceCall> calls;
    for (const Json& id : body.at("calls")) {
      WorkerCall& call = *calls_.at(id.get<size_t>());
      if (call.ready == nullptr) return refusal(call.refusal);
      calls.push_back(device_call(call));
    }
    device_calls_->queue(std::move(calls), {.key = body.at("key").get<uint64_t>(),
                                            .hold = body.at("hold").get<bool>(),
                                            .cold = body.at("cold").get<bool>()});
    return Json::object();
  }

  WorkerStatus go() {
    if (!device_calls_) throw Error("A runner on the CPU has no queue.");
    device_calls_->go();
    return WorkerStatus::kDone;
  }

  Json device_times() {
    DeviceTimes times = device_calls_->times();
    if (times.kept_l2) return {{"kept_l2", true}};
    return {{"ns", times.ns}, {"at_stop", times.at_stop}, {"held", times.held}, {"clock_mhz", times.clock_mhz}};
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

  Device device_;
  const OperatorInfo* op_ = nullptr;
  std::shared_ptr<const ForeignKernel> candidate_;  // null: the baseline
  AddressLayout layout_;
  Segments segments_;
  std::unique_ptr<ThreadPool> pool_;
  Arena arena_;
  std::unique_ptr<Node> root_;
  std::vector<std::unique_ptr<WorkerCall>> calls_;
  std::vector<ReadyCall*> ready_;  // of calls_, next to each other
  const int32_t* order_ = nullptr;
  Json outcome_ = Json::object();            // of the last order that failed or was refused
  std::optional<DeviceCalls> device_calls_;  // on a GPU only
};

// What the process does between two traps.
class Service {
 public:
  // `hello` answers the first time, when the candidate has been loaded.
  Service(int channel, const Json& open, std::unique_ptr<Worker> worker, Json hello)
      : channel_(channel),
        open_(open),
        worker_(std::move(worker)),
        hello_(std::move(hello)),
        usable_(worker_ != nullptr) {}

  // False if the process has to end. Not inlined, or a compiler may write the code of the first time, and its trap,
  // apart.
  [[gnu::noinline]] bool go_on(WorkerStatus& status) {
    if (loaded_ && usable_)
      if (std::optional<WorkerStatus> done = worker_->carry_out_order()) {
        status = *done;
        return true;
      }
    status = WorkerStatus::kDone;
    return loaded_ ? answer_request() : load();
  }
  int exit_code() const { return exit_code_; }

 private:
  bool load() {
    loaded_ = true;
    try {
      if (usable_) worker_->load(open_);
    } catch (const std::exception& e) {
      hello_.update(error_answer(e));
      usable_ = false;
    }
    return send_message(channel_, hello_) || end(1);
  }

  bool answer_request() {
    Message request;
    if (!usable_) return end(1);
    if (receive_message(channel_, -1, request) != Received::kMessage) return end(0);
    Json answer;
    try {
      answer = worker_->handle(request);
    } catch (const std::exception& e) {
      answer = error_answer(e);
    }
    answer["nonce"] = request.body.at("nonce");
    return send_message(channel_, answer) || end(0);
  }

  bool end(int code) {
    exit_code_ = code;
    return false;
  }

  const int channel_;
  const Json& open_;
  std::unique_ptr<Worker> worker_;
  Json hello_;
  bool usable_, loaded_ = false;
  int exit_code_ = 0;
};

}  // namespace

int serve_requests(int channel, const Json& open, Json hello) {
  // Unbuffered, so that output is stored even if the candidate crashes right afterwards.
  if (open.value("prints", false)) setvbuf(stdout, nullptr, _IONBF, 0);
  SandboxLimits limits;
  limits.private_memory_bytes = open.at("memory_bytes").get<size_t>();
  limits.private_tmp = path_from_json(open.at("private_tmp"));
  if (std::string library = path_from_json(open.at("library")); !library.empty()) limits.readable.push_back(library);
  // A driver opens many files when it starts, so it starts before the sandbox. It is not traced yet.
  if (Device device = device_in(open); device != kCpu) {
    limits.drives_gpu = true;
    limits.walls = static_cast<Walls>(open.at("walls").get<int>());
    try {
      device_runtime(device).judging().synchronize_all();
    } catch (const std::exception& e) {
      hello.update(error_answer(e));
    }
  }
  Message begin;
  if (!send_message(channel, hello) || receive_message(channel, -1, begin) != Received::kMessage) return 1;

  Json protections = Json::array();
  auto say = [&](const Protection& p) { protections.push_back({p.name, p.on, p.why}); };
  const std::vector<AddressRange> ours = loaded_memory();
  for (const Protection& p : restrict_self(limits)) say(p);
  say(no_restartable_sequences());
  std::unique_ptr<Worker> worker;
  Json answer = Json::object();
  try {
    worker = std::make_unique<Worker>(open, [&] { say(restrict_system_calls(limits, ours)); });
  } catch (const std::exception& e) {
    answer = error_answer(e);
  }
  answer["nonce"] = begin.body.at("nonce");
  answer["protections"] = std::move(protections);
  Service service(channel, open, std::move(worker), std::move(answer));
  auto status = WorkerStatus::kDone;
  // The process runs only between two traps. Its state at the first one is the reference for later checks, and so is
  // the place of the trap: this is the only one.
  do {
    trap(static_cast<uint64_t>(status));
    // The judge shares this core, and we may have interrupted it before it went to sleep; otherwise it would continue
    // in the middle of a long call. Here, because a candidate that changes our memory cannot leave it out.
    sched_yield();
  } while (service.go_on(status));
  // Without destructors: they would run through memory that a candidate may have changed.
  _exit(service.exit_code());
}

}  // namespace fk
