#include "tests/conformance/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/device_runtime.h"
#include "core/error.h"
#include "tests/conformance/compare.h"

namespace fk::conformance {
namespace {

constexpr uint64_t kSeed = 20;

// NaN, a large number and a small one in every float format; different in every bit pattern a stale value could have.
constexpr std::byte kPoison[] = {std::byte{0xff}, std::byte{0x5b}, std::byte{0xa5}};
constexpr int kCalls = static_cast<int>(std::size(kPoison));

BuildOptions oracle_options() {
  BuildOptions options;
  options.oracle = true;
  return options;
}

std::vector<OptView> views_of(const std::vector<std::optional<Tensor>>& tensors) {
  std::vector<OptView> views;
  for (const auto& t : tensors) views.push_back(t ? OptView(t->view()) : std::nullopt);
  return views;
}

Tensor converted(const View& from, const TensorSpec& to) {
  Tensor t(to);
  copy_elements(from, t);
  return t;
}

Node::Lookup lookup_in(const std::vector<ParamSpec>& specs, const std::vector<View>& views) {
  return [&specs, &views](const std::string& name) {
    for (size_t i = 0; i < specs.size(); ++i)
      if (specs[i].name == name) return views[i];
    throw Error("The reference tree has no parameter '{}'.", name);
  };
}

// Runs the oracles in f64 on the problem's numbers.
void compute_expected(Problem& problem) {
  Workload wide = problem.workload;
  wide.dtype = DType::kF64;
  Fields init = with_dtype(problem.init, DType::kF64);
  std::unique_ptr<Node> tree = problem.info->build(init, oracle_options());

  std::vector<ParamSpec> specs = collect_params(*tree), given_specs = collect_params(*problem.oracles);
  std::vector<Tensor> params;
  std::vector<View> param_views, given_params(problem.data.params.begin(), problem.data.params.end());
  for (const ParamSpec& p : specs) {
    params.push_back(converted(lookup_in(given_specs, given_params)(p.name), p.spec));
    param_views.push_back(params.back());
  }
  tree->bind(lookup_in(specs, param_views));

  Inputs inputs = problem.info->inputs(init, wide);
  for (size_t i = 0; i < inputs.size(); ++i) {
    problem.expected.emplace_back();
    if (inputs[i]) problem.expected.back() = converted(*problem.data.given[i], inputs[i]->spec);
  }
  for (const Tensor& state : problem.data.states)
    problem.expected_states.push_back(converted(state, {state.view().shape(), DType::kF64}));
  std::vector<View> states = state_views(problem.expected_states);
  OutputSpecs outputs = tree->outputs(views_of(problem.expected));
  for (size_t i = 0; problem.expected.size() < problem.info->args.size(); ++i) {
    problem.expected.emplace_back();
    if (outputs.specs[i]) problem.expected.back().emplace(*outputs.specs[i]);
  }

  ThreadPool pool(1);
  Arena arena;
  Context ctx{.pool = pool, .arena = arena, .attention = &problem.data.batch->attention(), .states = states};
  tree->call(ctx, views_of(problem.expected));
}

// Scratch memory with the content of the last call can hide bugs; every call gets different garbage there.
void poison_scratch(Arena& arena, std::byte pattern) {
  constexpr int64_t kScratch = 256 << 10;
  Arena::Mark mark = arena.mark();
  View v = arena.make({{kScratch}, DType::kU8});
  if (v.device() == kCpu)
    std::memset(v.data(), static_cast<int>(pattern), v.size_bytes());
  else
    device_runtime(v.device()).fill(v.data(), pattern, v.size_bytes());
  arena.release(mark);
}

// Kept for all trials: new memory for each would cost more than most of their calls.
Arena& scratch_on(Device device) {
  static std::vector<std::pair<Device, std::unique_ptr<Arena>>> kept;
  for (const auto& [where, arena] : kept)
    if (where == device) return *arena;
  return *kept.emplace_back(device, std::make_unique<Arena>(device)).second;
}

// The metadata of a batch where the call runs.
class MetadataOn {
 public:
  MetadataOn(const AttentionMetadata& given, Device device) : metadata_(given) {
    if (device == kCpu) return;
    auto move = [&](View& v) {
      owned_.emplace_back(v.spec(), device);
      copy_between(v, owned_.back());
      v = owned_.back();
    };
    for (SequenceGroup* group : {&metadata_.decode, &metadata_.prefill})
      for (View* v :
           {&group->cu_seqlens_q, &group->cu_seqlens_k, &group->seq_lens, &group->block_table, &group->state_slots})
        move(*v);
    move(metadata_.slot_mapping);
  }
  const AttentionMetadata& operator*() const { return metadata_; }

 private:
  AttentionMetadata metadata_;
  std::vector<Tensor> owned_;
};

// The guarded memory of one trial, and the checks after a call.
class Scene {
 public:
  Scene(const Problem& problem, Placement placement, Device device) : problem_(problem) {
    // Weights and states have no token rows: only their start moves.
    Placement dense = placement == Placement::kStridedRows ? Placement::kMisaligned : placement;
    const auto& args = problem.info->args;
    for (size_t i = 0; i < problem.data.given.size(); ++i) {
      if (const auto& tensor = problem.data.given[i])
        add(args[i].name, args[i].role, i).emplace(tensor->view(), placement, device);
      args_.push_back(problem.data.given[i] ? OptView(items_.back().tensor->view()) : std::nullopt);
    }
    OutputSpecs outputs = problem.oracles->outputs(args_);
    for (size_t i = args_.size(), k = 0; i < args.size(); ++i, ++k) {
      if (outputs.specs[k]) add(args[i].name, Role::kOutput, i).emplace(*outputs.specs[k], dense, device);
      args_.push_back(outputs.specs[k] ? OptView(items_.back().tensor->view()) : std::nullopt);
    }
    specs_ = collect_params(*problem.oracles);
    for (size_t i = 0; i < specs_.size(); ++i) {
      add(specs_[i].name, Role::kInput, kNoArg).emplace(problem.data.params[i].view(), dense, device);
      params_.push_back(items_.back().tensor->view());
    }
    for (size_t i = 0; i < problem.data.states.size(); ++i) {
      add(problem.data.state_specs[i].name, Role::kState, kNoArg).emplace(problem.data.states[i].view(), dense, device);
      items_.back().reference = problem.expected_states[i].view();
      states_.push_back(items_.back().tensor->view());
    }
  }

  Args args() const { return args_; }
  const std::vector<View>& states() const { return states_; }
  Node::Lookup weights() const { return lookup_in(specs_, params_); }

  void arm() const {
    for (const Item& item : items_) item.tensor->arm();
  }
  void disarm() const {
    for (const Item& item : items_) item.tensor->disarm();
  }

  void prepare(std::byte poison) {
    for (Item& item : items_) {
      if (item.role == Role::kState) item.tensor->restore();
      if (item.role == Role::kOutput) item.tensor->poison(poison);
    }
  }

  void check(int call, std::vector<std::string>& faults) {
    auto fault = [&](const std::string& what) { faults.push_back(fmt::format("call {}: {}", call + 1, what)); };
    bool as_before = true;  // all bits are those of the first call
    for (Item& item : items_) {
      item.tensor->look();
      if (std::string where = item.tensor->fence_damage(); !where.empty()) {
        fault(fmt::format("wrote outside '{}' ({})", item.name, where));
        continue;
      }
      if (item.role == Role::kInput) {
        if (std::string where = item.tensor->change(); !where.empty())
          fault(fmt::format("changed the input '{}' ({})", item.name, where));
        continue;
      }
      std::vector<std::byte> now = item.tensor->bytes();
      if (call > 0 && now == item.first) continue;  // which was right
      as_before = false;
      if (problem_.info->judge == nullptr || item.role == Role::kState) {
        std::string wrong = difference(item.tensor->seen(), *item.reference, problem_.tolerance);
        if (!wrong.empty()) fault(fmt::format("'{}': {}", item.name, wrong));
      }
      if (call == 0)
        item.first = std::move(now);
      else
        fault(fmt::format("'{}' differs in its bits from the first call's", item.name));
    }
    if (problem_.info->judge != nullptr && !as_before) {
      std::vector<OptView> call_seen = args_, reference = views_of(problem_.expected);
      for (const Item& item : items_)
        if (item.arg != kNoArg) call_seen[item.arg] = item.tensor->seen();
      std::string wrong = problem_.info->judge(problem_.init, call_seen, reference);
      if (!wrong.empty()) fault(wrong);
    }
  }

 private:
  static constexpr size_t kNoArg = ~size_t{0};
  struct Item {
    std::string name;
    Role role;
    size_t arg;  // or kNoArg
    OptView reference;
    std::optional<GuardedTensor> tensor;
    std::vector<std::byte> first;  // after the first call
  };

  std::optional<GuardedTensor>& add(std::string_view name, Role role, size_t arg) {
    items_.push_back(
        {std::string(name), role, arg, arg == kNoArg ? OptView() : OptView(problem_.expected[arg]->view()), {}, {}});
    return items_.back().tensor;
  }

  const Problem& problem_;
  std::vector<Item> items_;
  std::vector<OptView> args_;
  std::vector<ParamSpec> specs_;
  std::vector<View> params_;
  std::vector<View> states_;
};

}  // namespace

void Sweep::add(const Verdict& verdict) {
  if (verdict.refusal.empty())
    ++examined;
  else
    ++refusals[verdict.refusal];
}

std::string Sweep::fault() const {
  if (examined > 0) return "";
  std::string text = "it takes none of the cases, so nothing is known of it";
  for (const auto& [why, times] : refusals) text += fmt::format("; {} times: {}", times, why);
  return text;
}

Fields with_dtype(Fields init, DType dtype) {
  for (Field& f : init) {
    if (auto* nested = std::get_if<Fields>(&f.value))
      *nested = with_dtype(std::move(*nested), dtype);
    else if (f.name == "dtype")
      f.value = std::string(dtype_name(dtype));
  }
  return init;
}

bool Problem::has_rows() const {
  return std::any_of(data.given.begin(), data.given.end(),
                     [](const auto& t) { return t && may_have_strided_rows(t->view().spec()); });
}

Problem make_problem(const OperatorInfo& info, const OperatorInfo::ErasedCase& which, DType dtype) {
  Problem problem;
  problem.info = &info;
  problem.label = which.label;
  problem.init = with_dtype(which.init, dtype);
  problem.workload = which.workload;
  problem.workload.dtype = dtype;
  problem.tolerance = info.tolerance(problem.init, dtype);
  problem.oracles = info.build(problem.init, oracle_options());
  problem.data = make_call_data(*problem.oracles, problem.workload, kSeed);
  compute_expected(problem);
  return problem;
}

Subject subject_of(Node& node) {
  return {[&node](const Node::Lookup& weights) { node.bind(weights); },
          [&node](Context& ctx, Args args) { node.call(ctx, args); },
          [&node](Args args) { return node.refusal(args); }};
}

Verdict examine(const Problem& problem, const Subject& subject, Placement placement, ThreadPool& pool, Device device) {
  Verdict verdict;
  DeviceRuntime* runtime = device == kCpu ? nullptr : &device_runtime(device);
  Scene scene(problem, placement, device);
  subject.bind(scene.weights());
  verdict.refusal = subject.refusal(scene.args());  // which may depend on where the weights lie
  if (!verdict.refusal.empty()) return verdict;
  Arena& arena = scratch_on(device);
  MetadataOn metadata(problem.data.batch->attention(), device);
  for (int call = 0; call < kCalls && verdict.faults.empty(); ++call) {
    arena.reset();
    poison_scratch(arena, kPoison[call]);
    scene.prepare(kPoison[call]);
    Context ctx{.pool = pool, .arena = arena, .attention = &*metadata, .states = scene.states()};
    if (runtime != nullptr) ctx.stream = runtime->stream();
    try {
      scene.arm();
      subject.call(ctx, scene.args());
      if (runtime != nullptr) runtime->synchronize();
      scene.disarm();
    } catch (const Error& error) {
      scene.disarm();
      verdict.faults.push_back(fmt::format("call {}: threw: {}", call + 1, error.what()));
      return verdict;
    }
    scene.check(call, verdict.faults);
  }
  return verdict;
}

}  // namespace fk::conformance
