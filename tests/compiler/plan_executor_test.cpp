// A plan gives bit for bit what the model's tree gives: outputs and states, in little memory, without allocating.
#include "compiler/plan/plan_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "compiler/plan/find_regions.h"
#include "core/error.h"
#include "core/rng.h"
#include "graph/flatten.h"
#include "graph/interpreter.h"
#include "graph/trace.h"
#include "tests/compiler/region_by_calls.h"
#include "tests/engine/allocation_count.h"
#include "tests/graph/model_run.h"
#include "tests/graph/tiny_models.h"

namespace fk {
namespace {

void expect_same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(std::memcmp(a[i].view().data(), b[i].view().data(), a[i].view().size_bytes()), 0) << what << " " << i;
}

Graph graph_of(const ModelConfig& config, const std::string& name, GraphPhase phase) {
  return trace_graph(*build_model(config, {.oracle = true}), name, phase, config.facts.dtype);
}

// Values are never read before they are written: what is read of this memory shows up as NaN.
void poison(PlanArena& arena) { std::memset(arena.memory.data(), 0xff, arena.memory.size()); }

void expect_same_run(const ModelConfig& config, const std::string& name, GraphPhase phase) {
  SCOPED_TRACE(name + " " + std::string(phase_name(phase)));
  ModelRun model(config, workload_of(phase));
  auto arena = std::make_shared<PlanArena>();
  PlanExecutor plan(graph_of(config, name, phase), model.root(), model.weight(), {}, {.arena = arena});
  arena->grow(size_t{1} << 20);
  poison(*arena);
  auto by_tree = model.run([&](Context& ctx, Args args) { model.root().call(ctx, args); });
  for (int again = 0; again < 2; ++again) {
    auto by_plan = model.run([&](Context& ctx, Args args) { plan.run(ctx, args); });
    expect_same_bits(by_plan.outputs, by_tree.outputs, "output");
    expect_same_bits(by_plan.states, by_tree.states, "state");
  }
  PlanReport report = plan.report();
  EXPECT_EQ(report.copies, 0);
  EXPECT_EQ(report.steps, report.calls);
  EXPECT_GT(report.lower_bound_bytes, 0u);
  EXPECT_LE(static_cast<double>(report.arena_bytes), 1.1 * static_cast<double>(report.lower_bound_bytes));
}

TEST(PlanExecutor, EqualsTheTreeInEveryFamily) {
  for (const CatalogEntry* entry : one_of_each_family())
    expect_same_run(entry->config, entry->name, phases_of(*entry).back());
}

TEST(PlanExecutor, SlowEqualsTheTreeForEveryTinyModel) {
  for (const CatalogEntry* entry : tiny_models())
    for (GraphPhase phase : phases_of(*entry))
      for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
        ModelConfig config = entry->config;
        config.set_dtype(dtype);
        expect_same_run(config, entry->name, phase);
      }
}

TEST(PlanExecutor, MemoryIsNearTheLowerBoundForAnySizeOfBatch) {
  for (const char* name : {"tiny-llama", "tiny-qwen3-moe", "tiny-mamba"}) {
    const ModelConfig& config = find_catalog(name)->config;
    Graph graph = graph_of(config, name, GraphPhase::kPrefill);
    for (int64_t tokens : {1, 2, 7, 64, 333}) {
      ModelRun model(config, Workload::batch({{tokens, 0}, {tokens / 2 + 1, 5}}));
      PlanExecutor plan(graph, model.root(), model.weight());
      model.run([&](Context& ctx, Args args) { plan.run(ctx, args); });
      EXPECT_LE(static_cast<double>(plan.report().arena_bytes),
                1.1 * static_cast<double>(plan.report().lower_bound_bytes))
          << name << " " << tokens;
    }
  }
}

TEST(PlanExecutor, RefusesABatchOfAnotherPhaseOrShape) {
  const ModelConfig& config = find_catalog("tiny-llama")->config;
  ModelRun model(config, workload_of(GraphPhase::kMixed));
  PlanExecutor decode(graph_of(config, "tiny-llama", GraphPhase::kDecode), model.root(), model.weight());
  PlanExecutor mixed(graph_of(config, "tiny-llama", GraphPhase::kMixed), model.root(), model.weight());
  model.run([&](Context& ctx, Args args) {
    std::string why;
    EXPECT_FALSE(decode.takes(ctx, args, &why));
    EXPECT_EQ(why, "The graph is of the phase decode, and the batch has 2 decoding and 2 prefilling sequences.");
    EXPECT_THROW(decode.run(ctx, args), Error);
    std::vector<OptView> shorter(args.begin(), args.end());
    shorter[0] = shorter[0]->narrow(0, 0, 3);
    EXPECT_FALSE(mixed.takes(ctx, shorter, &why));
    EXPECT_EQ(why, "'input_ids' is i64[3], and the graph needs i64[12].");
    EXPECT_FALSE(mixed.run_if_it_fits(ctx, shorter));
    shorter[0] = std::nullopt;
    EXPECT_FALSE(mixed.takes(ctx, shorter, &why));
    EXPECT_EQ(why, "'input_ids' is absent, and the graph needs i64[12].");
    EXPECT_TRUE(mixed.run_if_it_fits(ctx, args));
  });
}

// Any step may be a generated kernel or a candidate with a wrong address.
TEST(PlanExecutor, CheckingEveryStepNamesOneThatCrashes) {
  struct Crashing final : RegionKernel {
    std::string_view refuse(std::span<const View>, std::span<const View>) const override { return {}; }
    void run(Context&, std::span<const View>, std::span<const View>) override { raise(SIGSEGV); }
  };
  const ModelConfig& config = find_catalog("tiny-llama")->config;
  ModelRun model(config, workload_of(GraphPhase::kPrefill));
  auto one_region = [](GraphPhase, const GraphBody& flat) {
    std::vector<PlannedRegion> regions;
    for (FoundRegion& f : find_regions(flat))
      if (regions.empty()) regions.push_back({std::move(f.region), std::make_shared<Crashing>()});
    return regions;
  };
  auto run = [&] {
    PlanExecutor plan(graph_of(config, "tiny-llama", GraphPhase::kPrefill), model.root(), model.weight(), one_region,
                      {.check_every_step = true});
    model.run([&](Context& ctx, Args args) { plan.run(ctx, args); });
  };
  EXPECT_EXIT(run(), testing::KilledBySignal(SIGSEGV), "Step 1 of [0-9]+, the region embedding.* at '.+', crashed");
}

// An output that has gaps between its rows is copied there; one that nobody wants is computed and dropped.
TEST(PlanExecutor, OutputsMayHaveGapsOrBeAbsent) {
  const ModelConfig& config = find_catalog("tiny-llama")->config;
  ModelRun model(config, workload_of(GraphPhase::kPrefill));
  PlanExecutor plan(graph_of(config, "tiny-llama", GraphPhase::kPrefill), model.root(), model.weight());
  auto dense = model.run([&](Context& ctx, Args args) { plan.run(ctx, args); });
  const View& want = dense.outputs[0].view();
  auto strided = model.run([&](Context& ctx, Args args) {
    Tensor wide({want.size(0), want.size(1) + 32}, DType::kF32);
    std::vector<OptView> with_gaps(args.begin(), args.end());
    with_gaps.back() = wide.view().narrow(1, 0, want.size(1));
    plan.run(ctx, with_gaps);
    EXPECT_EQ(plan.report().copies, 1);
    copy_array(*with_gaps.back(), *args.back());
    EXPECT_EQ(get(wide.view(), 0, want.size(1)), 0);  // behind the row nothing is written
    with_gaps.back() = std::nullopt;
    plan.run(ctx, with_gaps);
    EXPECT_EQ(plan.report().copies, 0);
  });
  expect_same_bits(strided.outputs, dense.outputs, "output");
}

TEST(PlanExecutor, ManySizesInTurnAndNothingIsAllocatedWhenTheyRepeat) {
  const ModelConfig& config = find_catalog("tiny-qwen3")->config;
  Graph graph = graph_of(config, "tiny-qwen3", GraphPhase::kPrefill);
  // One tree, so that one executor sees all sizes; each has its own batch.
  std::vector<std::unique_ptr<ModelRun>> runs;
  for (int64_t tokens = 1; tokens <= 19; ++tokens)
    runs.push_back(std::make_unique<ModelRun>(config, Workload::batch({{tokens, 0}})));
  PlanExecutor plan(graph, runs[0]->root(), runs[0]->weight());
  for (int round = 0; round < 3; ++round)
    for (const auto& run : runs) {
      auto by_tree = run->run([&](Context& ctx, Args args) { runs[0]->root().call(ctx, args); });
      auto by_plan = run->run([&](Context& ctx, Args args) { plan.run(ctx, args); });
      expect_same_bits(by_plan.outputs, by_tree.outputs, "output");
    }
  EXPECT_EQ(plan.report().layouts, 16);
  runs[3]->run([&](Context& ctx, Args args) {
    plan.run(ctx, args);
    ctx.arena.reset();
    plan.run(ctx, args);
    const int64_t before = allocation_count();
    for (int i = 0; i < 20; ++i) plan.run(ctx, args);
    EXPECT_EQ(allocation_count() - before, 0);
  });
}

// A graph whose calls read any earlier value of the right shape. What was updated in place is often read afterwards.
Graph rewired(const Graph& graph, uint64_t seed, int changes) {
  Graph flat{graph.model, graph.phase, {flatten(graph)}};
  GraphBody& body = flat.bodies[0];
  Stream stream(seed, "rewired");
  uint64_t at = 0;
  std::vector<bool> is_state(body.values.size(), false);
  std::vector<size_t> made(body.values.size(), 0);  // by the node before this one
  for (ValueId id : body.inputs)
    is_state[static_cast<size_t>(id)] = body.values[static_cast<size_t>(id)].kind != ValueKind::kArgument;
  for (size_t n = 0; n < body.nodes.size(); ++n)
    for (const GraphOperand& o : body.nodes[n].outputs) {
      const GraphOperand* before = body.nodes[n].input(o.name);
      auto v = static_cast<size_t>(o.value);
      is_state[v] = body.nodes[n].is_call() && before != nullptr && is_state[static_cast<size_t>(before->value)];
      made[v] = n + 1;
    }
  for (int i = 0; i < changes; ++i) {
    const size_t n = stream.below(at++, body.nodes.size());
    GraphNode& node = body.nodes[n];
    GraphOperand& operand = node.inputs[stream.below(at++, node.inputs.size())];
    const GraphValue& value = body.values[static_cast<size_t>(operand.value)];
    if (is_state[static_cast<size_t>(operand.value)] || !dtype_is_float(value.dtype)) continue;
    std::vector<ValueId> others;
    for (size_t v = 0; v < body.values.size(); ++v)
      if (made[v] <= n && !is_state[v] && body.values[v].dtype == value.dtype && body.values[v].shape == value.shape)
        others.push_back(static_cast<ValueId>(v));
    operand.value = others[stream.below(at++, others.size())];
  }
  return flat;
}

void expect_copies_where_values_are_old(uint64_t every) {
  int64_t copies = 0, plans = 0;
  for (const char* name : {"tiny-llama", "tiny-qwen3", "tiny-deepseek-v3", "tiny-mamba2", "tiny-siglip"}) {
    const CatalogEntry* entry = find_catalog(name);
    const GraphPhase phase = phases_of(*entry).back();
    ModelConfig config = entry->config;
    config.set_dtype(DType::kF32);
    Graph graph = graph_of(config, name, phase);
    ModelRun model(config, workload_of(phase));
    auto by_tree = [&] { return model.run([&](Context& ctx, Args args) { model.root().call(ctx, args); }); };
    const auto before = by_tree();
    for (uint64_t seed = 0; seed < 40; seed += every) {
      SCOPED_TRACE(fmt::format("{} {}", name, seed));
      Graph other = rewired(graph, seed, 1 + static_cast<int>(seed) / 2);
      check_graph(other);
      GraphInterpreter interpreter(other, model.weight(), collect_states(model.root()));
      auto arena = std::make_shared<PlanArena>();
      arena->grow(size_t{1} << 20);
      poison(*arena);
      PlanExecutor plan(other, model.root(), model.weight(), {}, {.arena = arena});
      auto wanted = model.run([&](Context& ctx, Args args) { interpreter.run(ctx, args); });
      auto given = model.run([&](Context& ctx, Args args) { plan.run(ctx, args); });
      expect_same_bits(given.outputs, wanted.outputs, "output");
      expect_same_bits(given.states, wanted.states, "state");
      copies += plan.report().copies;
      ++plans;
    }
    // Neither arguments nor weights were written.
    expect_same_bits(by_tree().outputs, before.outputs, "output");
  }
  EXPECT_GT(copies, plans / 4);  // else this tests nothing
}

TEST(PlanExecutor, GraphsThatReadOldValuesAreCopiedWhereTheyMust) { expect_copies_where_values_are_old(4); }
TEST(PlanExecutor, SlowManyGraphsThatReadOldValues) { expect_copies_where_values_are_old(1); }

// Random regions, neighbours in the graph or not, made by one kernel each.
void expect_same_bits_of_random_regions(uint64_t first_seed, uint64_t seeds) {
  int64_t made = 0, impossible = 0;
  for (const CatalogEntry* entry : one_of_each_family()) {
    const GraphPhase phase = phases_of(*entry).back();
    Graph graph = graph_of(entry->config, entry->name, phase);
    ModelRun model(entry->config, workload_of(phase));
    auto by_tree = model.run([&](Context& ctx, Args args) { model.root().call(ctx, args); });
    for (uint64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
      SCOPED_TRACE(fmt::format("{} {}", entry->name, seed));
      std::vector<std::shared_ptr<RegionByCalls>> kernels;
      FindRegions find = [&](GraphPhase, const GraphBody& body) {
        Stream stream(seed, "regions");
        uint64_t at = 0;
        std::vector<PlannedRegion> list;
        for (size_t n = 0; n < body.nodes.size();) {
          const size_t count = 1 + stream.below(at++, 7);
          std::vector<size_t> nodes;
          for (size_t i = n; i < std::min(n + count, body.nodes.size()); ++i)
            if (seed % 2 == 0 || stream.below(at++, 4) != 0) nodes.push_back(i);
          n += count + stream.below(at++, 4);
          const bool has_call =
              std::any_of(nodes.begin(), nodes.end(), [&](size_t i) { return body.nodes[i].is_call(); });
          if (!has_call) continue;
          Region region = region_of(body, nodes);
          kernels.push_back(std::make_shared<RegionByCalls>(body, region, &model.data().batch->attention()));
          if (stream.below(at++, 4) == 0) kernels.back()->why_not = "not today";
          list.push_back({region, kernels.back()});
        }
        return list;
      };
      try {
        auto arena = std::make_shared<PlanArena>();
        arena->grow(size_t{1} << 20);
        poison(*arena);
        PlanExecutor plan(graph, model.root(), model.weight(), find, {.arena = arena});
        auto by_plan = model.run([&](Context& ctx, Args args) { plan.run(ctx, args); });
        expect_same_bits(by_plan.outputs, by_tree.outputs, "output");
        expect_same_bits(by_plan.states, by_tree.states, "state");
        int64_t accepted = 0;
        for (const auto& kernel : kernels) {
          EXPECT_EQ(kernel->runs, kernel->why_not.empty() ? 1 : 0);
          accepted += kernel->runs;
        }
        EXPECT_EQ(plan.report().regions, accepted);
        EXPECT_EQ(plan.report().refused_regions, static_cast<int64_t>(kernels.size()) - accepted);
        made += accepted;
      } catch (const Error& e) {
        // Calls with others between them that depend on them.
        EXPECT_NE(std::string(e.what()).find("follows from its own results"), std::string::npos) << e.what();
        EXPECT_EQ(seed % 2, 1u);
        ++impossible;
      }
    }
  }
  EXPECT_GT(made, static_cast<int64_t>(80 * seeds));
  EXPECT_GT(impossible, 0);
}

TEST(PlanExecutor, RandomRegionsGiveTheSameBits) { expect_same_bits_of_random_regions(0, 2); }
TEST(PlanExecutor, SlowManyRandomRegionsGiveTheSameBits) { expect_same_bits_of_random_regions(2, 6); }

// A region that is there for batches which a larger one refuses.
TEST(PlanExecutor, RegionsStandInForOneThatRefuses) {
  const CatalogEntry* entry = find_catalog("tiny-llama");
  const GraphPhase phase = phases_of(*entry).back();
  Graph graph = graph_of(entry->config, entry->name, phase);
  ModelRun model(entry->config, workload_of(phase));
  auto by_tree = model.run([&](Context& ctx, Args args) { model.root().call(ctx, args); });
  for (bool refuses : {false, true}) {
    std::vector<std::shared_ptr<RegionByCalls>> kernels;  // the large one, then its halves
    FindRegions find = [&](GraphPhase, const GraphBody& body) {
      std::vector<size_t> all, halves[2];
      for (size_t n = 0; n < 6; ++n) all.push_back(n), halves[n / 3].push_back(n);
      std::vector<PlannedRegion> list;
      for (const std::vector<size_t>& nodes : {all, halves[0], halves[1]}) {
        Region region = region_of(body, nodes);
        kernels.push_back(std::make_shared<RegionByCalls>(body, region, &model.data().batch->attention()));
        list.push_back({region, kernels.back(), list.empty() ? -1 : 0});
      }
      if (refuses) kernels[0]->why_not = "so many rows";
      return list;
    };
    PlanExecutor plan(graph, model.root(), model.weight(), find, {});
    auto by_plan = model.run([&](Context& ctx, Args args) { plan.run(ctx, args); });
    expect_same_bits(by_plan.outputs, by_tree.outputs, "output");
    expect_same_bits(by_plan.states, by_tree.states, "state");
    EXPECT_EQ(kernels[0]->runs, refuses ? 0 : 1);
    EXPECT_EQ(kernels[1]->runs, refuses ? 1 : 0);
    EXPECT_EQ(kernels[2]->runs, refuses ? 1 : 0);
    EXPECT_EQ(plan.report().refused_regions, refuses ? 1 : 0);
  }
}

}  // namespace
}  // namespace fk
