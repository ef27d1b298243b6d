#include "bench/scenarios/dry_run.h"

#include <map>

#include "ops/registry.h"

namespace fk {
namespace {

class LeaveKernelsOut final : public CallObserver {
 public:
  explicit LeaveKernelsOut(CallObserver* next) : next_(next) {}

  bool before_call(const Node& node, const Context& ctx, Args args) override {
    if (next_ != nullptr) next_->before_call(node, ctx, args);
    return node.info().level > 1;
  }

 private:
  CallObserver* next_;
};

// Compositions that return a bias copy it themselves, so vectors are allocated. Matrices are too large, and only
// kernels read them.
View vector_or_shape(const TensorSpec& spec, Arena& memory) {
  return spec.shape.rank() <= 1 ? memory.make(spec) : shape_only(spec);
}

void bind_vectors(Node& root, Arena& memory) {
  bool needed = false;
  walk(root, [&](const Node& node, int) { needed = needed || (node.info().level > 1 && !node.own_params().empty()); });
  if (!needed) return;
  std::map<std::string, TensorSpec> specs;
  for (const ParamSpec& p : collect_params(root)) specs.emplace(p.name, p.spec);
  root.bind([&](const std::string& name) { return vector_or_shape(specs.at(name), memory); });
}

}  // namespace

BuildOptions dry_build_options() { return {.oracle = true}; }

View shape_only(const TensorSpec& spec) {
  // Not null, because views are narrowed by pointer arithmetic; and never mapped.
  return View(reinterpret_cast<void*>(uintptr_t{4096}), spec);
}

size_t dry_run(Node& root, const Workload& workload, CallObserver* observer) {
  Arena memory;
  bind_vectors(root, memory);
  std::vector<OptView> args;
  for (const auto& input : root.info().inputs(root.init(), workload))
    args.push_back(input ? OptView(shape_only(input->spec)) : std::nullopt);
  OutputSpecs outputs = root.outputs(args);
  for (size_t i = 0; args.size() < root.info().args.size(); ++i)
    args.push_back(outputs.specs[i] ? OptView(vector_or_shape(*outputs.specs[i], memory)) : std::nullopt);

  BatchMetadata batch(workload, 0);
  std::vector<View> states;
  for (const StateSpec& s : collect_states(root))
    states.push_back(shape_only(state_tensor(s, state_room(workload), workload.dtype)));
  ThreadPool pool(1);
  Arena arena;
  LeaveKernelsOut leave_out(observer);
  Context ctx{pool, arena, &batch.attention(), states, &leave_out};
  root.call(ctx, args);
  return arena.capacity_bytes();
}

}  // namespace fk
