// Generated kernels and plans on the device: every region of every family against the definitions, whole models against
// their trees.
#include <algorithm>
#include <cmath>
#include <set>

#include "candidate/toolchain.h"
#include "compiler/plan/compiled_model.h"
#include "compiler/plan/find_products.h"
#include "compiler/plan/generated_kernel.h"
#include "compiler/plan/host_copy.h"
#include "compiler/plan/region_trial.h"
#include "core/error.h"
#include "engine/decode_loop.h"
#include "engine/model.h"
#include "graph/flatten.h"
#include "graph/trace.h"
#include "models/catalog.h"
#include "tests/backend/cuda/on_device.h"
#include "tests/graph/tiny_models.h"

namespace fk {
namespace {

class GeneratedKernels : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (!IsSkipped() && find_nvcc().empty()) GTEST_SKIP() << "there is no nvcc";
  }

  struct Phase {
    GraphPhase phase;
    GraphBody flat;
    std::vector<FoundRegion> found;
  };
  static Phase phase_of_model(const CatalogEntry& entry, GraphPhase phase) {
    ModelSource source = resolve_model(entry.name);
    std::unique_ptr<Node> root = build_model(source.config, {.oracle = true});
    // Also of what hand-written kernels of blocks replace in a plan.
    Phase made{phase, flatten(trace_graph(*root, entry.name, phase, source.config.facts.dtype)), {}};
    made.found = find_regions(made.flat, nullptr, DeviceKind::kCuda);
    return made;
  }

  static void expect_right(const CatalogEntry& entry, const std::vector<GraphPhase>& phases) {
    std::set<std::string> seen;
    for (GraphPhase phase : phases) {
      SCOPED_TRACE(entry.name + " " + std::string(phase_name(phase)));
      Phase made = phase_of_model(entry, phase);
      std::vector<const FoundRegion*> all;
      for (const FoundRegion& f : made.found) all.push_back(&f);
      if (all.empty()) continue;
      CompiledRegions compiled = compile_regions(all, made.flat, {}, DeviceKind::kCuda);
      for (size_t i = 0; i < made.found.size(); ++i) {
        RegionDraft draft = draft_of(made.found[i], made.flat, DeviceKind::kCuda);
        if (!seen.insert(draft.key).second) continue;
        TrialResult trial = try_kernel_here(made.flat, made.found[i], *compiled.kernels[i],
                                            {.phase = phase, .rows = {}, .device = kCuda});
        EXPECT_EQ(trial.failure, "") << draft.calls << "\n" << draft.expression;
      }
    }
  }
};

TEST_F(GeneratedKernels, ComputeWhatTheDefinitionsSay) {
  for (const char* name : {"tiny-rwkv7", "tiny-qwen3-moe", "tiny-gla", "tiny-deepseek-v3"})
    if (const CatalogEntry* entry = find_catalog(name)) expect_right(*entry, {GraphPhase::kDecode});
}

TEST_F(GeneratedKernels, SlowThoseOfEveryFamilyComputeWhatTheDefinitionsSay) {
  for (const CatalogEntry* entry : one_of_each_family()) expect_right(*entry, phases_of(*entry));
}

// Every cut, with one row and with several.
TEST_F(GeneratedKernels, ProductsComputeWhatTheDefinitionsSay) {
  std::set<std::string> seen;
  for (const char* name : {"tiny-qwen3", "tiny-gemma4", "tiny-qwen3-next", "tiny-gpt-oss", "tiny-deepseek-v32"}) {
    const CatalogEntry* entry = find_catalog(name);
    if (entry == nullptr) continue;
    SCOPED_TRACE(name);
    Phase made = phase_of_model(*entry, GraphPhase::kDecode);
    std::vector<FoundProducts> products = find_products(made.flat, made.found);
    std::vector<const FoundRegion*> all;
    for (const FoundProducts& p : products) all.push_back(&p.region);
    ASSERT_FALSE(all.empty());
    CompiledRegions compiled = compile_regions(all, made.flat, {}, DeviceKind::kCuda);
    for (size_t i = 0; i < all.size(); ++i) {
      RegionDraft draft = draft_of(*all[i], made.flat, DeviceKind::kCuda);
      if (!seen.insert(draft.key).second) continue;
      TrialResult trial = try_kernel_here(made.flat, *all[i], *compiled.kernels[i], {.rows = {}, .device = kCuda});
      EXPECT_EQ(trial.failure, "") << draft.calls << "\n" << draft.expression;
    }
  }
}

// Logits of a prompt, of a step with two sequences, and tokens and logits of recorded steps.
std::vector<float> results_of(const Model& model, ThreadPool& pool, int64_t& recordings) {
  ModelExecutor executor(model, pool, {.max_sequences = 2, .max_context = 96});
  std::vector<float> all;
  auto keep = [&](const View& logits) {
    Tensor host = host_copy(logits);
    all.insert(all.end(), host.ptr<float>(), host.ptr<float>() + host.view().numel());
  };
  std::vector<int64_t> prompt;
  for (int64_t i = 0; i < 21; ++i) prompt.push_back((3 + 7 * i * i) % model.config.facts.vocab_size);
  RunningSequence a = executor.start(), b = executor.start();
  keep(executor.prefill(a, prompt));
  keep(executor.prefill(b, std::span(prompt).first(5)));
  DecodeLoop loop(executor, 2);
  RunningSequence* sequences[] = {&a, &b};
  const int64_t tokens[] = {1, 2}, drawn[] = {0, 0};
  const SamplingParams greedy[2] = {};
  loop.start(sequences, tokens, greedy, drawn, 8);
  const int64_t before = device_runtime(kCuda).recordings();
  for (int i = 0; i < 6; ++i) loop.step_with(tokens);
  keep(loop.logits());
  recordings = device_runtime(kCuda).recordings() - before;
  // A longer prompt moves the memory of plans; recorded steps go on.
  RunningSequence* one[] = {&a};
  executor.finish(b);
  RunningSequence c = executor.start();
  std::vector<int64_t> longer(60, 5);
  keep(executor.prefill(c, longer));
  loop.start(one, std::span(tokens).first(1), std::span(greedy).first(1), std::span(drawn).first(1), 4);
  for (int i = 0; i < 4; ++i) loop.step_with(std::span(tokens).first(1));
  keep(loop.logits());
  executor.finish(a);
  executor.finish(c);
  return all;
}

// How far apart results are, by the size of the largest.
double apart(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0, scale = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(b[i])) return INFINITY;
    most = std::max(most, std::abs(static_cast<double>(a[i]) - b[i]));
    scale = std::max(scale, std::abs(static_cast<double>(a[i])));
  }
  return most / scale;
}

class GeneratedModels : public GeneratedKernels, public testing::WithParamInterface<const char*> {};

TEST_P(GeneratedModels, WithoutKernelsGiveTheBitsOfTheTree) {
  const char* name = GetParam();
  ThreadPool pool(1);
  Model model = load_model(resolve_model(name), {.format = LoadFormat::kDummy, .seed = 3, .device = kCuda}, pool);
  int64_t tree_recordings = 0, plan_recordings = 0;
  const std::vector<float> by_tree = results_of(model, pool, tree_recordings);
  CompiledModel compiled(model);
  const std::vector<float> by_plan = results_of(model, pool, plan_recordings);
  EXPECT_EQ(by_plan, by_tree);
  EXPECT_EQ(plan_recordings, tree_recordings) << "one for each size of batch";
  EXPECT_EQ(compiled.calls_by_tree(), 0);
}

TEST_P(GeneratedModels, WithAllKernelsAreCloseToTheTree) {
  const char* name = GetParam();
  ThreadPool pool(1);
  // In f32, where other orders of sums make no difference that one could see.
  Model model = load_model(resolve_model(name),
                           {.format = LoadFormat::kDummy, .dtype = DType::kF32, .seed = 3, .device = kCuda}, pool);
  int64_t recordings = 0;
  const std::vector<float> by_tree = results_of(model, pool, recordings);
  int64_t regions = 0;
  CompiledModel compiled(model, [&](GraphPhase, const GraphBody& flat) {
    std::vector<FoundRegion> found = find_regions(flat, nullptr, DeviceKind::kCuda);
    std::vector<const FoundRegion*> all;
    for (const FoundRegion& f : found) all.push_back(&f);
    CompiledRegions kernels = compile_regions(all, flat, {}, DeviceKind::kCuda);
    std::vector<PlannedRegion> planned;
    for (size_t i = 0; i < found.size(); ++i) planned.push_back({std::move(found[i].region), kernels.kernels[i]});
    regions += static_cast<int64_t>(planned.size());
    return planned;
  });
  const std::vector<float> by_plan = results_of(model, pool, recordings);
  EXPECT_GT(regions, 0);
  ASSERT_EQ(by_plan.size(), by_tree.size());
  EXPECT_LT(apart(by_tree, by_plan), 2e-3);
}

INSTANTIATE_TEST_SUITE_P(Models, GeneratedModels,
                         testing::Values("tiny-rwkv7", "tiny-mamba", "tiny-gla", "tiny-gemma4", "tiny-qwen3-next",
                                         "tiny-deepseek-v3"),
                         [](const testing::TestParamInfo<const char*>& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_F(GeneratedKernels, AWholeTokenInOneKernelStaysOne) {
  ThreadPool pool(1);
  Model model = load_model(resolve_model("llama-3.2-1b"), {.format = LoadFormat::kDummy, .device = kCuda}, pool);
  CompiledModel compiled(model);
  ModelExecutor executor(model, pool, {.max_sequences = 1, .max_context = 64});
  RunningSequence sequence = executor.start();
  const int64_t token = 3;
  const NewTokens item{&sequence, {&token, 1}};
  for (int i = 0; i < 3; ++i) executor.forward({&item, 1});
  EXPECT_EQ(compiled.calls_by_whole(), 3);
  EXPECT_EQ(compiled.whole(), "cuda.one_kernel");
}

}  // namespace
}  // namespace fk
