// Plans and trials on a device, as far as they do not depend on a real one: memory of the device, copies, poisoned
// outputs, plans with generated kernels, whose threads run on the CPU.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "candidate/compile.h"
#include "candidate/compile_cache.h"
#include "compiler/plan/compiled_model.h"
#include "compiler/plan/find_products.h"
#include "compiler/plan/generated_kernel.h"
#include "compiler/plan/region_trial.h"
#include "compiler/plan/tree_calls.h"
#include "core/device_runtime.h"
#include "engine/model_executor.h"
#include "graph/trace.h"
#include "models/resolve.h"
#include "tests/compiler/cuda_emulation.h"

namespace fk {
namespace {

constexpr Device kFake{DeviceKind::kCuda, 0};

// All kernels of a graph, with threads that run on the CPU.
std::vector<std::shared_ptr<RegionKernel>> emulated_kernels(const std::vector<FoundRegion>& found,
                                                            const GraphBody& flat) {
  std::vector<RegionText> texts;
  std::vector<RegionDraft> drafts;
  std::map<std::string, size_t> seen;
  for (const FoundRegion& f : found) drafts.push_back(draft_of(f, flat, DeviceKind::kCuda));
  for (size_t i = 0; i < found.size(); ++i)
    if (seen.emplace(drafts[i].key, i).second) texts.push_back(text_of(drafts[i], found[i]));
  std::string source = cuda_region_source(texts, std::string(kEmulationPrelude));
  std::string path = (std::filesystem::path(testing::TempDir()) / (Fingerprint().add(source).hex() + ".cpp")).string();
  write_whole(path, source);
  CompileResult built =
      compile_candidate({nullptr, path}, {.cxxflags = {"-O1"}, .limit_ms = 300'000, .without_operator = true});
  EXPECT_FALSE(built.failure) << built.log;
  void* library = dlopen(built.so_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::vector<std::shared_ptr<RegionKernel>> kernels;
  for (size_t i = 0; i < found.size(); ++i)
    kernels.push_back(cuda_region_kernel(
        reinterpret_cast<CudaRegionFunction>(dlsym(library, ("region_" + drafts[i].key).c_str())), found[i], false));
  return kernels;
}

GraphBody flat_on_device(const char* name, GraphPhase phase) {
  ModelSource source = resolve_model(name);
  std::unique_ptr<Node> root = build_model(source.config, {.oracle = true});
  std::unique_ptr<Node> tree = build_model(source.config, {.device = kFake});
  return calls_of_tree(trace_graph(*root, name, phase, source.config.facts.dtype), *tree).flat;
}

class PlansOnDevice : public testing::Test {
 protected:
  PlansOnDevice() { device_runtime(kFake); }  // lends it the kernels of the CPU
};

TEST_F(PlansOnDevice, TrialsFindOutWhatIsRightAndWrong) {
  GraphBody flat = flat_on_device("tiny-rwkv7", GraphPhase::kDecode);
  std::vector<FoundRegion> found = find_regions(flat, nullptr, DeviceKind::kCuda);
  ASSERT_FALSE(found.empty());
  std::vector<std::shared_ptr<RegionKernel>> kernels = emulated_kernels(found, flat);
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(try_kernel_here(flat, found[i], *kernels[i], {.rows = {}, .device = kFake}).failure, "");
  struct Nothing final : RegionKernel {
    std::string_view refuse(std::span<const View>, std::span<const View>) const override { return {}; }
    void run(Context&, std::span<const View>, std::span<const View>) override {}
  } nothing;
  EXPECT_THAT(try_kernel_here(flat, found[0], nothing, {.rows = {}, .device = kFake}).failure,
              testing::HasSubstr("result 0"));
}

// Logits of two prompts and of steps.
std::vector<float> logits_of(const Model& model) {
  ThreadPool pool(1);
  ModelExecutor executor(model, pool, {.max_sequences = 2, .max_context = 64});
  std::vector<float> all;
  auto keep = [&](const View& logits) {
    Tensor host(logits.spec());
    copy_between(logits, host);
    all.insert(all.end(), host.ptr<float>(), host.ptr<float>() + host.view().numel());
  };
  RunningSequence a = executor.start(), b = executor.start();
  const std::vector<int64_t> prompt = {3, 9, 4, 1, 7, 7, 2}, longer(33, 5);
  keep(executor.prefill(a, prompt));
  const int64_t token = 6;
  const NewTokens step{&a, {&token, 1}};
  keep(executor.forward({&step, 1}));
  keep(executor.prefill(b, longer));  // its plan needs more memory
  const NewTokens both[] = {{&a, {&token, 1}}, {&b, {&token, 1}}};
  keep(executor.forward(both));
  keep(executor.forward({&step, 1}));
  executor.finish(a);
  executor.finish(b);
  return all;
}

TEST_F(PlansOnDevice, ModelsAreCloseToTheirTrees) {
  for (const char* name : {"tiny-rwkv7", "tiny-gemma4", "tiny-qwen3-next"}) {
    SCOPED_TRACE(name);
    ThreadPool pool(1);
    // The fake device fills no dummy weights: they are made on the CPU, whose memory it shares.
    Model model =
        load_model(resolve_model(name), {.format = LoadFormat::kDummy, .dtype = DType::kF32, .seed = 3}, pool);
    const std::vector<float> by_tree = logits_of(model);
    Model there =
        load_model(resolve_model(name), {.format = LoadFormat::kDummy, .dtype = DType::kF32, .seed = 3}, pool);
    there.device = kFake;
    there.root = build_model(there.config, {.device = kFake});
    there.root->bind([&](const std::string& path) {
      const View v = there.weight(path);
      return View(v.data(), v.spec(), kFake);
    });
    int64_t regions = 0;
    CompiledModel compiled(there, [&](GraphPhase, const GraphBody& flat) {
      std::vector<FoundRegion> found = find_regions(flat, nullptr, DeviceKind::kCuda);
      std::vector<std::shared_ptr<RegionKernel>> kernels = emulated_kernels(found, flat);
      std::vector<PlannedRegion> planned;
      for (size_t i = 0; i < found.size(); ++i) planned.push_back({std::move(found[i].region), kernels[i]});
      regions += static_cast<int64_t>(planned.size());
      return planned;
    });
    const std::vector<float> by_plan = logits_of(there);
    EXPECT_GT(regions, 0);
    EXPECT_EQ(compiled.calls_by_tree(), 0);
    ASSERT_EQ(by_plan.size(), by_tree.size());
    double most = 0, scale = 0;
    for (size_t i = 0; i < by_tree.size(); ++i) {
      ASSERT_TRUE(std::isfinite(by_plan[i]));
      most = std::max(most, std::abs(static_cast<double>(by_plan[i]) - by_tree[i]));
      scale = std::max(scale, std::abs(static_cast<double>(by_tree[i])));
    }
    EXPECT_LT(most / scale, 1e-3);
  }
}

// Steps that decode by kernels with products, in bf16; a batch of several rows is refused by one of them.
TEST_F(PlansOnDevice, SlowModelsWithProductsAreCloseToTheirTrees) {
  for (const char* name : {"tiny-gemma4", "tiny-qwen3-next"}) {
    SCOPED_TRACE(name);
    ThreadPool pool(1);
    const LoadOptions load{.format = LoadFormat::kDummy, .dtype = DType::kBF16, .seed = 3};
    Model model = load_model(resolve_model(name), load, pool);
    const std::vector<float> by_tree = logits_of(model);
    Model there = load_model(resolve_model(name), load, pool);
    there.device = kFake;
    there.root = build_model(there.config, {.device = kFake});
    there.root->bind([&](const std::string& path) {
      const View v = there.weight(path);
      return View(v.data(), v.spec(), kFake);
    });
    size_t products = 0;
    CompiledModel compiled(there, [&](GraphPhase phase, const GraphBody& flat) {
      std::vector<PlannedRegion> planned;
      if (phase != GraphPhase::kDecode) return planned;
      const std::vector<FoundRegion> regions = find_regions(flat, nullptr, DeviceKind::kCuda);
      std::vector<FoundRegion> found;
      for (FoundProducts& p : find_products(flat, regions)) found.push_back(std::move(p.region));
      std::vector<std::shared_ptr<RegionKernel>> kernels = emulated_kernels(found, flat);
      for (size_t i = 0; i < found.size(); ++i) planned.push_back({std::move(found[i].region), kernels[i]});
      if (!kernels.empty()) dynamic_cast<CutKernel&>(*kernels[0]).use(0, CutKernel::kNoCut);
      products += planned.size();
      return planned;
    });
    const std::vector<float> by_plan = logits_of(there);
    EXPECT_GT(products, 0u);
    EXPECT_EQ(compiled.calls_by_tree(), 0);
    ASSERT_EQ(by_plan.size(), by_tree.size());
    double squares = 0, scale = 0;
    for (size_t i = 0; i < by_tree.size(); ++i) {
      ASSERT_TRUE(std::isfinite(by_plan[i]));
      squares += std::pow(static_cast<double>(by_plan[i]) - by_tree[i], 2);
      scale += std::pow(static_cast<double>(by_tree[i]), 2);
    }
    EXPECT_LT(std::sqrt(squares / scale), 0.05);
  }
}

}  // namespace
}  // namespace fk
