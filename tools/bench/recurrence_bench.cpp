// Times linear attention and delta rules in the sizes of published models: recurrence_bench [cpu|cuda] [threads]
// [operator]...
//
// Every implementation of both forms: one token of 1 and of 64 sequences, and one prompt of 2048 tokens. The fastest of
// several runs is reported. On CUDA the calls of a run are recorded as a graph. One state may stay in a cache; those of
// 64 sequences do not.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/device_runtime.h"
#include "measure/timer.h"
#include "ops/l1/linear_recurrence.h"
#include "ops/materialize.h"
#include "ops/registry.h"

namespace {

using namespace fk;

struct Sizes {
  std::string_view rule, model;
  LinearRecurrenceInit init;
};

const Sizes kSizes[] = {
    {"gla", "gla-2.7b", {.num_heads = 5, .head_k_dim = 256, .head_v_dim = 512}},
    {"retention", "retnet-2.7b", {.num_heads = 10, .head_k_dim = 256, .head_v_dim = 512}},
    {"rwkv7", "rwkv7-2.9b", {.num_heads = 40, .head_k_dim = 64, .head_v_dim = 64}},
    {"gated_delta_rule",
     "qwen3-next-80b-a3b",
     {.num_heads = 16, .num_k_heads = 16, .num_v_heads = 32, .head_k_dim = 128, .head_v_dim = 128}},
    {"kda", "kimi-linear-48b-a3b", {.num_heads = 32, .head_k_dim = 128, .head_v_dim = 128}},
};

// One call of one implementation, and its tensors on the device.
class Call {
 public:
  Call(const OperatorInfo& info, const std::string& implementation, const LinearRecurrenceInit& init,
       const Workload& workload, Device device, int threads)
      : device_(device), pool_(threads), arena_(device) {
    BuildOptions options;
    options.device = device;
    options.only_operator = info.name;
    options.only_implementation = implementation;
    node_ = info.build(to_fields(init), options);
    CallData data = make_call_inputs(*node_, workload, 1);
    for (const auto& given : data.given) {
      tensors_.emplace_back(given->view().spec(), device);
      copy_between(*given, tensors_.back());
      args_.emplace_back(tensors_.back().view());
    }
    for (const auto& spec : node_->outputs(args_).specs) {
      if (!spec) continue;
      tensors_.emplace_back(*spec, device);
      args_.emplace_back(tensors_.back().view());
    }
  }

  std::string refusal() const { return node_->refusal(args_); }

  double best_s() {
    run(2);
    double once = timed([&] { run(1); });
    const int calls = std::clamp(static_cast<int>(0.02 / once), 1, 200);
    double best = 1e30;
    if (device_ == kCpu) {
      for (int i = 0; i < 8; ++i) best = std::min(best, timed([&] { run(calls); }) / calls);
      return best;
    }
    DeviceRuntime& runtime = device_runtime(device_);
    runtime.begin_recording();
    run(calls);
    std::unique_ptr<RecordedWork> work = runtime.end_recording();
    for (int i = 0; i < 8; ++i) best = std::min(best, timed([&] { work->launch(); }) / calls);
    return best;
  }

 private:
  void run(int calls) {
    Context ctx{.pool = pool_, .arena = arena_, .attention = nullptr};
    if (device_ != kCpu) ctx.stream = device_runtime(device_).stream();
    for (int i = 0; i < calls; ++i) {
      arena_.reset();
      node_->call(ctx, args_);
    }
  }

  template <class Body>
  double timed(Body&& body) {
    if (device_ == kCpu) {
      const int64_t start = now_ns();
      body();
      return static_cast<double>(now_ns() - start) * 1e-9;
    }
    DeviceRuntime& runtime = device_runtime(device_);
    auto start = runtime.make_event(), stop = runtime.make_event();
    start->record();
    body();
    stop->record();
    return stop->elapsed_ms_since(*start) * 1e-3;
  }

  Device device_;
  ThreadPool pool_;
  Arena arena_;
  std::unique_ptr<Node> node_;
  std::vector<Tensor> tensors_;
  std::vector<OptView> args_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const Device device = argc > 1 && std::string_view(argv[1]) == "cuda" ? Device{DeviceKind::kCuda, 0} : kCpu;
    const int threads = argc > 2 ? std::atoi(argv[2]) : 2;
    fmt::print("{:<34}{:<14}{:>6}{:>7}{:>12}{:>10}\n", "operator", "by", "seqs", "tokens", "us", "GB/s");
    for (const Sizes& sizes : kSizes) {
      struct Form {
        std::string op;
        std::vector<Sequence> sequences;
      };
      const std::string one = fmt::format("fused_recurrent_{}", sizes.rule), many = fmt::format("chunk_{}", sizes.rule);
      for (const Form& form :
           {Form{one, {{1, 8}}}, Form{one, std::vector<Sequence>(64, Sequence{1, 8})}, Form{many, {{2048, 0}}}}) {
        if (argc > 3 && std::none_of(argv + 3, argv + argc, [&](const char* name) { return form.op == name; }))
          continue;
        const OperatorInfo& info = Registry::instance().at(form.op);
        Workload workload = Workload::batch(form.sequences);
        const double bytes = info.cost(to_fields(sizes.init), workload).bytes();
        for (const ImplementationInfo& implementation : info.implementations) {
          if (implementation.is_oracle || implementation.device != device.kind) continue;
          Call call(info, std::string(implementation.name), sizes.init, workload, device, threads);
          if (!call.refusal().empty()) continue;
          const double s = call.best_s();
          fmt::print("{:<34}{:<14}{:>6}{:>7}{:>12.1f}{:>10.0f}\n", form.op, implementation.name,
                     workload.num_sequences(), workload.num_tokens(), s * 1e6, bytes * 1e-9 / s);
          std::fflush(stdout);
        }
      }
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
