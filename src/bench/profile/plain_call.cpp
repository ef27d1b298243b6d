#include "bench/profile/plain_call.h"

#include <algorithm>
#include <map>

#include "core/device_judging.h"
#include "core/device_runtime.h"
#include "measure/statistics.h"
#include "measure/timer.h"

namespace fk {

struct PlainCall::State {
  State(const Scenario& scenario, Device where, int threads, uint64_t seed)
      : device(where), pool(threads), arena(where), root(scenario.info().build(scenario.init, {.device = where})) {
    CallData data = make_call_inputs(*root, scenario.workload, seed);
    std::vector<Tensor> params = make_params(*root, seed);
    std::map<std::string, View> weights;
    std::vector<ParamSpec> wanted = collect_params(*root);
    for (size_t i = 0; i < wanted.size(); ++i) weights[wanted[i].name] = here(params[i]);
    root->bind([&](const std::string& name) { return weights.at(name); });
    std::vector<OptView> given;
    for (const auto& t : data.given) {
      given.push_back(t ? OptView(t->view()) : std::nullopt);
      args.push_back(t ? OptView(here(*t)) : std::nullopt);
    }
    OutputSpecs outputs = root->outputs(given);
    for (size_t i = 0; args.size() < scenario.info().args.size(); ++i) {
      args.emplace_back();
      if (!outputs.specs[i]) continue;
      owned.emplace_back(*outputs.specs[i], device);
      args.back() = owned.back().view();
    }
    for (const Tensor& t : data.states) states.push_back(here(t));
    attention = data.batch->attention();
    for (SequenceGroup* g : {&attention.decode, &attention.prefill})
      for (View* v : {&g->cu_seqlens_q, &g->cu_seqlens_k, &g->seq_lens, &g->block_table, &g->state_slots})
        *v = here(*v);
    attention.slot_mapping = here(attention.slot_mapping);
  }

  // A copy that lives as long as this.
  View here(const View& view) {
    owned.emplace_back(view.spec(), device);
    copy_between(view, owned.back());
    return owned.back();
  }

  void call() {
    arena.reset();
    Context ctx{.pool = pool,
                .arena = arena,
                .attention = &attention,
                .states = states,
                .stream = device == kCpu ? nullptr : device_runtime(device).stream()};
    root->call(ctx, args);
  }

  Device device;
  ThreadPool pool;
  Arena arena;
  std::unique_ptr<Node> root;
  std::vector<Tensor> owned;
  std::vector<OptView> args;
  std::vector<View> states;
  AttentionMetadata attention;
};

PlainCall::PlainCall(const Scenario& scenario, Device device, int threads, uint64_t seed)
    : state_(std::make_unique<State>(scenario, device, threads, seed)) {}
PlainCall::~PlainCall() = default;

void PlainCall::run() {
  state_->call();
  if (state_->device != kCpu) device_runtime(state_->device).synchronize();
}

double PlainCall::median_ns(int calls) {
  std::vector<double> times;
  std::unique_ptr<DeviceEvent> start, stop;
  if (state_->device != kCpu) {
    start = device_runtime(state_->device).make_event();
    stop = device_runtime(state_->device).make_event();
  }
  for (int i = 0; i < calls; ++i) {
    if (start) start->record();
    Stopwatch watch;
    state_->call();
    if (stop) stop->record();
    times.push_back(stop ? stop->elapsed_ms_since(*start) * 1e6 : static_cast<double>(watch.elapsed_ns()));
  }
  return median(times);
}

std::string PlainCall::implementation() {
  std::string most;
  int64_t calls = 0;
  for (const DispatchCount& c : collect_dispatches(*state_->root))
    if (c.op == state_->root->info().name && c.calls > calls) {
      calls = c.calls;
      most = c.implementation;
    }
  return most;
}

void PlainCall::mark_for_profiler(bool on) {
  if (state_->device != kCpu) device_runtime(state_->device).judging().mark_for_profiler(on);
}

}  // namespace fk
