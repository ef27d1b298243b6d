#include "sandbox/worker.h"

#include <sched.h>

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

struct PreparedCall {
  std::vector<OptView> args;
  std::vector<View> states;
  std::optional<AttentionMetadata> attention;
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
    auto library = open.at("library").get<std::string>();
    if (!library.empty()) candidate_ = load_candidate(library, *op_);
    if (open.at("empty").get<bool>()) candidate_ = empty_kernel(*op_);
    if (candidate_) Registry::instance().add_foreign(op_->name, "candidate", device_.kind, candidate_);
    root_ = op_->build(fields_from_json(open.at("init")), {.device = device_});
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
    if (what == "ask") return ask(body);
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
    calls_.clear();
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
    calls_.clear();
    for (const Json& call : body.at("calls")) calls_.push_back(planned(call));
    return Json::object();
  }

  PreparedCall planned(const Json& body) const {
    PreparedCall call;
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
    return call;
  }

  // Whether the candidate would refuse a call, before it is made.
  Json ask(const Json& body) {
    if (!candidate_) return Json::object();
    std::unique_ptr<ForeignOperator> object = candidate_->create(root_->init());
    std::string_view why = object->refuse(calls_.at(body.at("id").get<size_t>()).args);
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

  WorkerStatus carry_out(Order order, std::span<const int32_t> entries) {
    if (order == Order::kGo) return go();
    if (order == Order::kWait) {
      std::this_thread::sleep_for(std::chrono::microseconds(entries[0]));
      return WorkerStatus::kDone;
    }
    // The judge shares this core, and we may have interrupted it before it went to sleep; otherwise it would continue
    // in the middle of a long call.
    sched_yield();
    for (int32_t id : entries) make_call(calls_.at(static_cast<size_t>(id)));
    if (!refused(entries.size())) return WorkerStatus::kDone;
    outcome_ = refusal(calls_.at(static_cast<size_t>(entries.front())));
    return WorkerStatus::kRefused;
  }

  void make_call(PreparedCall& call) {
    arena_.reset();
    Context ctx{.pool = *pool_,
                .arena = arena_,
                .attention = call.attention ? &*call.attention : nullptr,
                .states = call.states,
                .stream = device_calls_ ? device_runtime(device_).stream() : nullptr};
    root_->call(ctx, call.args);
  }

  // Whether the candidate ran fewer than `calls` calls since the last check. Done for baselines too, so that both sides
  // take equally long.
  bool refused(size_t calls) {
    int64_t before = std::exchange(taken_, candidate_calls());
    return candidate_ && taken_ - before != static_cast<int64_t>(calls);
  }
  Json refusal(const PreparedCall& call) const {
    return {{"refused", candidate_->create(root_->init())->refuse(call.args)}};
  }

  DeviceCall device_call(PreparedCall& call) {
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
    made.forward = [this, &call] { make_call(call); };
    return made;
  }

  Json queue(const Json& body) {
    queued_.clear();
    for (const Json& id : body.at("calls")) queued_.push_back(&calls_.at(id.get<size_t>()));
    std::vector<DeviceCall> calls;
    for (PreparedCall* call : queued_) calls.push_back(device_call(*call));
    device_calls_->queue(std::move(calls), {.key = body.at("key").get<uint64_t>(),
                                            .hold = body.at("hold").get<bool>(),
                                            .cold = body.at("cold").get<bool>()});
    return Json::object();
  }

  WorkerStatus go() {
    device_calls_->go();
    if (!refused(queued_.size())) return WorkerStatus::kDone;
    outcome_ = refusal(*queued_.front());
    return WorkerStatus::kRefused;
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
  std::vector<PreparedCall> calls_;
  const int32_t* order_ = nullptr;
  Json outcome_ = Json::object();            // of the last order that failed or was refused
  std::optional<DeviceCalls> device_calls_;  // on a GPU only
  std::vector<PreparedCall*> queued_;
  int64_t taken_ = 0;  // calls made by the candidate
};

}  // namespace

int serve_requests(int channel, const Json& open, Json hello) {
  // Unbuffered, so that output is stored even if the candidate crashes right afterwards.
  if (open.value("prints", false)) setvbuf(stdout, nullptr, _IONBF, 0);
  SandboxLimits limits;
  limits.private_memory_bytes = open.at("memory_bytes").get<size_t>();
  limits.private_tmp = open.at("private_tmp").get<std::string>();
  if (auto library = open.at("library").get<std::string>(); !library.empty()) limits.readable.push_back(library);
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
  std::unique_ptr<Worker> worker;
  Json answer = Json::object();
  try {
    worker = std::make_unique<Worker>(open, [&] { say(restrict_system_calls(limits, ours)); });
  } catch (const std::exception& e) {
    answer = error_answer(e);
  }
  bool usable = worker != nullptr, loaded = false;
  auto status = WorkerStatus::kDone;
  for (;;) {
    // The process runs only between two traps. Its state at the first one is the reference for later checks, and so is
    // the place of the trap: there is no other call of trap().
    trap(static_cast<uint64_t>(status));
    if (!loaded) {
      loaded = true;
      try {
        if (usable) worker->load(open);
      } catch (const std::exception& e) {
        answer = error_answer(e);
        usable = false;
      }
      answer["nonce"] = begin.body.at("nonce");
      answer["protections"] = protections;
      if (!send_message(channel, answer)) return 1;
      continue;
    }
    if (!usable) return 1;
    status = WorkerStatus::kDone;
    if (std::optional<WorkerStatus> done = worker->carry_out_order()) {
      status = *done;
      continue;
    }
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
