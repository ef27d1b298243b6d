// Regions of models: which calls become one kernel, that they can, and that a trial finds out what is wrong with one.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "compiler/plan/find_regions.h"
#include "compiler/plan/generated_kernel.h"
#include "compiler/plan/region_memory.h"
#include "compiler/plan/region_trial.h"
#include "core/error.h"
#include "engine/model.h"
#include "graph/flatten.h"
#include "graph/trace.h"
#include "models/catalog.h"
#include "models/resolve.h"
#include "ops/registry.h"
#include "tests/graph/tiny_models.h"

namespace fk {
namespace {

using testing::HasSubstr;

GraphBody flat_graph(const CatalogEntry& entry, GraphPhase phase) {
  ModelSource source = resolve_model(entry.name);
  std::unique_ptr<Node> root = build_model(source.config, {.oracle = true});
  return flatten(trace_graph(*root, entry.name, phase, source.config.facts.dtype));
}

std::map<std::string, int> regions_of(const char* model, GraphPhase phase) {
  GraphBody flat = flat_graph(*find_catalog(model), phase);
  std::map<std::string, int> counts;
  for (const FoundRegion& found : find_regions(flat)) ++counts[draft_of(found, flat).calls];
  return counts;
}

TEST(Regions, AreTheCallsBetweenProductsAndAttention) {
  std::map<std::string, int> counts = regions_of("tiny-qwen3", GraphPhase::kDecode);
  EXPECT_EQ(counts["rms_norm + rms_norm + rotary_emb + store_kvcache"], 3);
  EXPECT_EQ(counts["index_select + index_select + rms_norm"], 1);
  EXPECT_EQ(counts["silu_and_mul"], 3);
  counts = regions_of("tiny-gemma3", GraphPhase::kDecode);
  EXPECT_EQ(counts["gemma_rms_norm + gemma_rms_norm"], 11) << "the norms around a residual sum";
}

// Layers that are alike are looked at once: that finds the kernels that each region would have by itself.
TEST(Regions, OfOneKindHaveOneKernel) {
  for (const char* model : {"tiny-qwen3", "tiny-gemma3", "tiny-jamba", "tiny-rwkv7", "tiny-deepseek-v3"}) {
    SCOPED_TRACE(model);
    GraphBody flat = flat_graph(*find_catalog(model), GraphPhase::kMixed);
    std::vector<FoundRegion> found = find_regions(flat);
    RegionDrafts drafts(flat, DeviceKind::kCpu);
    std::set<int> kinds;
    for (const FoundRegion& f : found) {
      EXPECT_GE(f.kind, 0);
      kinds.insert(f.kind);
      const FoundRegion alone = region_in_graph(flat, f.region);
      EXPECT_EQ(drafts.of(f).key, draft_of(alone, flat).key);
      EXPECT_EQ(drafts.of(f).expression, draft_of(alone, flat).expression);
      EXPECT_EQ(drafts.of(alone).key, drafts.of(f).key) << "one without a kind";
    }
    EXPECT_LT(kinds.size(), found.size());
  }
}

TEST(Regions, AreLookedUpForADevice) {
  GraphBody flat = flat_graph(*find_catalog("tiny-qwen3"), GraphPhase::kDecode);
  const std::vector<FoundRegion> found = find_regions(flat);
  ASSERT_FALSE(found.empty());
  const Region& region = found[0].region;
  EXPECT_NO_THROW(region_in_graph(flat, region, DeviceKind::kCuda));
  EXPECT_THROW(region_in_graph(flat, region, DeviceKind::kCpu, {region.nodes[0]}), Error) << "products are for CUDA";
}

// What a plan relies on: a region runs at the place of its last node.
TEST(Regions, SlowCanRunAtTheirLastNode) {
  for (const CatalogEntry* entry : one_of_each_family())
    for (GraphPhase phase : phases_of(*entry)) {
      SCOPED_TRACE(entry->name + " " + std::string(phase_name(phase)));
      GraphBody flat = flat_graph(*entry, phase);
      std::map<ValueId, size_t> maker;
      for (size_t n = 0; n < flat.nodes.size(); ++n)
        for (const GraphOperand& o : flat.nodes[n].outputs) maker[o.value] = n;
      std::set<size_t> taken;
      for (const FoundRegion& found : find_regions(flat)) {
        const Region& region = found.region;
        std::set<size_t> inside(region.nodes.begin(), region.nodes.end());
        std::set<ValueId> inputs(region.inputs.begin(), region.inputs.end()), outputs;
        for (const Region::Output& o : region.outputs) outputs.insert(o.value);
        for (size_t n : region.nodes) {
          EXPECT_TRUE(taken.insert(n).second || !flat.nodes[n].is_call()) << "a call of two regions";
          for (const GraphOperand& o : flat.nodes[n].inputs)
            EXPECT_TRUE(inputs.count(o.value) > 0 || inside.count(maker.at(o.value)) > 0) << flat.nodes[n].path;
        }
        for (ValueId id : inputs) {
          if (maker.count(id) == 0) continue;
          EXPECT_LT(maker[id], region.nodes.back());
        }
        for (size_t n = 0; n < flat.nodes.size(); ++n) {
          if (inside.count(n) > 0) continue;
          for (const GraphOperand& o : flat.nodes[n].inputs) {
            if (maker.count(o.value) == 0 || inside.count(maker[o.value]) == 0) continue;
            EXPECT_TRUE(outputs.count(o.value) > 0) << "read outside, and no output";
            EXPECT_TRUE(!flat.nodes[n].is_call() || n > region.nodes.back()) << "read before the region has run";
          }
        }
      }
    }
}

// Every kernel of these graphs that is not among the seen ones is right; none is timed.
void expect_right_kernels(const CatalogEntry& entry, const std::vector<GraphPhase>& phases,
                          std::set<std::string>& seen) {
  for (GraphPhase phase : phases) {
    SCOPED_TRACE(entry.name + " " + std::string(phase_name(phase)));
    GraphBody flat = flat_graph(entry, phase);
    const std::vector<FoundRegion> found = find_regions(flat);
    std::vector<const FoundRegion*> others;
    for (const FoundRegion& f : found)
      if (seen.insert(draft_of(f, flat).key).second) others.push_back(&f);
    if (others.empty()) continue;
    CompiledRegions compiled = compile_regions(others, flat);
    for (size_t i = 0; i < others.size(); ++i) {
      TrialResult trial = try_kernel(flat, *others[i], *compiled.kernels[i], {.phase = phase, .rows = {}});
      const RegionDraft draft = draft_of(*others[i], flat);
      EXPECT_EQ(trial.failure, "") << draft.calls << "\n" << draft.expression;
    }
  }
}

TEST(Regions, SlowKernelsComputeWhatTheCallsDo) {
  std::set<std::string> seen;
  expect_right_kernels(*find_catalog("tiny-qwen3"), {GraphPhase::kDecode}, seen);
  expect_right_kernels(*find_catalog("tiny-gemma3"), {GraphPhase::kPrefill}, seen);
  EXPECT_GT(seen.size(), 5u);
}

TEST(Regions, SlowKernelsOfEveryFamilyComputeWhatTheCallsDo) {
  std::set<std::string> seen;
  for (const CatalogEntry* entry : one_of_each_family()) expect_right_kernels(*entry, phases_of(*entry), seen);
}

// A region with a kernel of the test in place of the generated one.
class Trial : public testing::Test {
 protected:
  struct Kernel final : RegionKernel {
    std::function<void(std::span<const View>)> body;
    std::string_view refuse(std::span<const View>, std::span<const View>) const override { return {}; }
    void run(Context&, std::span<const View>, std::span<const View> outputs) override { body(outputs); }
  };

  Trial() : flat_(flat_graph(*find_catalog("tiny-llama"), GraphPhase::kDecode)) {
    for (FoundRegion& f : find_regions(flat_))
      if (draft_of(f, flat_).calls == "silu_and_mul") found_ = std::move(f);
  }

  TrialResult run(std::function<void(std::span<const View>)> body, int limit_s = 60) {
    Kernel kernel;
    kernel.body = std::move(body);
    return try_kernel(flat_, found_, kernel, {.rows = {1}, .limit_s = limit_s});
  }

  GraphBody flat_;
  FoundRegion found_;
};

TEST_F(Trial, AFastAndWrongKernelIsNotUsed) {
  TrialResult zeros = run([](std::span<const View> out) { std::memset(out[0].data(), 0, out[0].size_bytes()); });
  EXPECT_THAT(zeros.failure, HasSubstr("result 0"));
  EXPECT_FALSE(zeros.wins());
  EXPECT_THAT(run([](std::span<const View>) {}).failure, HasSubstr("result 0")) << "nothing written";
}

TEST_F(Trial, AKernelThatWritesBehindItsResultIsNotUsed) {
  const TrialResult row = run([](std::span<const View> out) {
    const View one = out[0].narrow(0, 0, 1);
    std::memset(static_cast<char*>(out[0].data()) + out[0].size_bytes(), 0, one.size_bytes());
  });
  EXPECT_THAT(row.failure, HasSubstr("writes behind the end of result 0"));
}

// topk_softmax as the only call of a graph.
GraphBody topk_graph(int64_t experts, int64_t top_k) {
  SymbolicSize tokens;
  tokens.factors[static_cast<size_t>(SizeSymbol::kTokens)] = 1;
  GraphBody flat;
  flat.values = {{ValueKind::kArgument, "x", DType::kF32, {tokens, experts}},
                 {ValueKind::kResult, "", DType::kF32, {tokens, top_k}},
                 {ValueKind::kResult, "", DType::kI32, {tokens, top_k}}};
  flat.inputs = {0};
  GraphNode call{.op = "topk_softmax", .level = 1, .init = Registry::instance().at("topk_softmax").default_init()};
  for (auto& [name, value] : call.init) {
    if (name == "num_experts") value = experts;
    if (name == "top_k") value = top_k;
  }
  call.inputs = {{"gating_output", 0}};
  call.outputs = {{"topk_weights", 1}, {"topk_ids", 2}};
  flat.nodes = {call};
  flat.outputs = {{"weights", 1}, {"ids", 2}};
  return flat;
}

TEST(Regions, IdsOfExpertsAreIndicesWhateverTheLogitsAre) {
  constexpr int64_t kExperts = 8, kTopK = 3, kTokens = 3;
  const GraphBody flat = topk_graph(kExperts, kTopK);
  const std::vector<FoundRegion> found = find_regions(flat);
  ASSERT_EQ(found.size(), 1u);
  const CompiledRegions compiled = compile_regions({found.data()}, flat);
  Tensor x({kTokens, kExperts}, DType::kF32), weights({kTokens, kTopK}, DType::kF32),
      ids({kTokens, kTopK}, DType::kI32);
  for (int64_t i = 0; i < kExperts; ++i) {
    x.ptr<float>()[i] = static_cast<float>(i % 5);
    x.ptr<float>()[kExperts + i] = std::numeric_limits<float>::quiet_NaN();
    x.ptr<float>()[2 * kExperts + i] = i == 3 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(i);
  }
  const View inputs[] = {x.view()}, outputs[] = {weights.view(), ids.view()};
  ThreadPool pool(1);
  Arena arena;
  Context ctx{.pool = pool, .arena = arena};
  compiled.kernels[0]->run(ctx, inputs, outputs);
  const int32_t* const id = ids.ptr<int32_t>();
  EXPECT_EQ((std::vector<int32_t>(id, id + kTopK)), (std::vector<int32_t>{4, 3, 2}));
  for (int64_t i = kTopK; i < ids.view().numel(); ++i) EXPECT_TRUE(id[i] >= 0 && id[i] < kExperts) << id[i];
}

// Each choice depends on all that came before it.
TEST(Regions, InputsOfManyChoicesAreMadeAtOnce) {
  const GraphBody flat = topk_graph(64, 22);
  const std::vector<FoundRegion> found = find_regions(flat);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(RegionMemory(flat, found[0], sizes_with_rows(GraphPhase::kPrefill, 2), 1).inputs().size(), 1u);
}

// The bounds of its sequences have one row more than the result.
TEST(Regions, APoolHasAsManyRowsAsItsResult) {
  const GraphBody flat = flat_graph(*find_catalog("tiny-xlm-roberta"), GraphPhase::kEncode);
  std::vector<FoundRegion> found = find_regions(flat);
  const auto pool = std::find_if(found.begin(), found.end(),
                                 [&](const FoundRegion& f) { return draft_of(f, flat).calls == "sequence_pool"; });
  ASSERT_NE(pool, found.end());
  const CompiledRegions compiled = compile_regions({&*pool}, flat);
  const TrialResult trial = try_kernel(flat, *pool, *compiled.kernels[0], {.phase = GraphPhase::kEncode, .rows = {}});
  EXPECT_EQ(trial.failure, "");
}

TEST_F(Trial, AKernelThatCrashesOrHangsEndsItsOwnProcessOnly) {
  EXPECT_THAT(run([](std::span<const View>) { raise(SIGSEGV); }).failure, HasSubstr("Segmentation fault"));
  EXPECT_THAT(run([](std::span<const View>) { _exit(3); }).failure, HasSubstr("without a result"));
  EXPECT_THAT(run([](std::span<const View>) { throw Error("no memory"); }).failure, HasSubstr("no memory"));
  EXPECT_THAT(run([](std::span<const View>) { pause(); }, 1).failure, HasSubstr("did not finish within 1 s"));
}

// Only wrong numbers are wrong.
TEST_F(Trial, SaysHowItEnded) {
  using Outputs = std::span<const View>;
  EXPECT_EQ(run([](Outputs) {}).end, TrialEnd::kWrong);
  EXPECT_EQ(run([](Outputs) { raise(SIGSEGV); }).end, TrialEnd::kCrashed);
  EXPECT_EQ(run([](Outputs) { raise(SIGKILL); }).end, TrialEnd::kKilled);
  EXPECT_EQ(run([](Outputs) { throw Error("no memory"); }).end, TrialEnd::kFailed);
  EXPECT_EQ(run([](Outputs) { pause(); }, 1).end, TrialEnd::kUnfinished);
  EXPECT_EQ(trial_end_text(TrialEnd::kUnfinished), "did not finish");
}

// A kernel that takes long is timed less often, not longer.
TEST_F(Trial, TimesWithinItsBudget) {
  const std::vector<FoundRegion> found = find_regions(flat_);
  const auto silu = std::find_if(found.begin(), found.end(),
                                 [&](const FoundRegion& f) { return draft_of(f, flat_).calls == "silu_and_mul"; });
  ASSERT_NE(silu, found.end());
  const CompiledRegions compiled = compile_regions({&*silu}, flat_);
  struct Slow final : RegionKernel {
    RegionKernel* right = nullptr;
    std::string_view refuse(std::span<const View>, std::span<const View>) const override { return {}; }
    void run(Context& ctx, std::span<const View> in, std::span<const View> out) override {
      usleep(20'000);
      right->run(ctx, in, out);
    }
  } slow;
  slow.right = compiled.kernels[0].get();
  const auto start = std::chrono::steady_clock::now();
  const TrialResult trial = try_kernel(flat_, *silu, slow, {.rows = {1}, .limit_s = 60, .timing_s = 0.1});
  EXPECT_EQ(trial.failure, "");
  ASSERT_EQ(trial.timings.size(), 1u);
  EXPECT_EQ(trial.timings[0].verdict, "SLOWER");
  // Without a budget there are 80 samples of hundreds of calls.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

// A search that is killed leaves nothing that runs on.
TEST_F(Trial, EndsWithWhoWaitsForIt) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t search = fork();
  if (search == 0) {
    run([&](std::span<const View>) {
      const pid_t trial = getpid();
      static_cast<void>(!write(ends[1], &trial, sizeof trial));
      for (;;) pause();
    });
    _exit(0);
  }
  pid_t trial = 0;
  ASSERT_EQ(read(ends[0], &trial, sizeof trial), static_cast<ssize_t>(sizeof trial));
  kill(search, SIGKILL);
  waitpid(search, nullptr, 0);
  bool gone = false;
  for (int i = 0; i < 200 && !gone; ++i, usleep(10'000)) {
    std::ifstream stat("/proc/" + std::to_string(trial) + "/stat");
    std::string text;
    std::getline(stat, text);
    gone = text.empty() || text.find(") Z") != text.npos;
  }
  EXPECT_TRUE(gone);
  if (!gone) kill(trial, SIGKILL);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace fk
