// Kernels support the calls that a judge generates: a workload whose optional inputs are turned on or off, as random
// shapes do, must not run on the oracle because no implementation supports it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/error.h"
#include "core/thread_pool.h"
#include "ops/materialize.h"
#include "validate/reference.h"

namespace fk::validate {
namespace {

std::string taken_by(const OperatorInfo& info, const Fields& init, const Workload& workload) {
  std::unique_ptr<Node> root = info.build(init, {});
  CallData data = make_call_data(*root, workload, 3);
  std::vector<ParamSpec> params = collect_params(*root);
  root->bind([&](const std::string& name) -> View {
    for (size_t i = 0; i < params.size(); ++i)
      if (params[i].name == name) return data.params[i];
    throw Error("no parameter '{}'", name);
  });
  std::vector<OptView> args;
  for (const auto& t : data.given) args.push_back(t ? OptView(t->view()) : std::nullopt);
  OutputSpecs specs = root->outputs(args);
  std::vector<Tensor> outputs;
  for (size_t i = 0; args.size() < info.args.size(); ++i) {
    if (specs.specs[i]) outputs.emplace_back(*specs.specs[i]);
    args.push_back(specs.specs[i] ? OptView(outputs.back().view()) : std::nullopt);
  }
  ThreadPool pool(1);
  Arena arena;
  Context ctx{.pool = pool, .arena = arena, .attention = &data.batch->attention(), .states = {}};
  root->call(ctx, args);
  std::vector<DispatchCount> counts;
  root->count_dispatches(counts);
  for (const DispatchCount& c : counts)
    if (c.calls > 0) return std::string(c.implementation);
  return "nobody";
}

// Without optional inputs both workloads are the same call, and most operators have none.
bool same_call(const OperatorInfo& info, const Fields& init, const Workload& a, const Workload& b) {
  const Inputs of_a = info.inputs(init, a), of_b = info.inputs(init, b);
  return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), [](const auto& x, const auto& y) {
    return x.has_value() == y.has_value() && (!x || x->spec == y->spec);
  });
}

class GeneratedCalls : public testing::TestWithParam<const OperatorInfo*> {};

TEST_P(GeneratedCalls, AreTakenByAKernel) {
  const OperatorInfo& info = *GetParam();
  for (const auto& c : info.cases()) {
    if (c.workload.num_tokens() == 0) continue;
    Workload workload = c.workload;
    workload.dtype = DType::kBF16;
    Fields init = with_dtype(c.init, DType::kBF16);
    Workload turned = workload;
    turned.optional_inputs = !workload.optional_inputs;
    if (same_call(info, init, workload, turned)) continue;
    if (taken_by(info, init, workload) == "oracle") continue;  // an unusual case that no kernel supports anyway
    EXPECT_NE(taken_by(info, init, turned), "oracle") << fmt::format("{}, case '{}'", info.name, c.label);
  }
}

std::vector<const OperatorInfo*> kernels() {
  std::vector<const OperatorInfo*> all = Registry::instance().operators();
  std::erase_if(all, [](const OperatorInfo* op) { return op->level != 1 || op->implementations.size() < 2; });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Registry, GeneratedCalls, testing::ValuesIn(kernels()),
                         [](const auto& p) { return std::string(p.param->name); });

}  // namespace
}  // namespace fk::validate
