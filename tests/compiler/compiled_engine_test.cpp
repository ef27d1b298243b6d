// The batching engine over a compiled model: the same greedy tokens as over the tree, with requests side by side,
// prompts in chunks, guessed tokens and preemptions, and steps that are counted by what ran them.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/plan/compiled_model.h"
#include "compiler/plan/generated_kernel.h"
#include "engine/batching_engine.h"

namespace fk {
namespace {

struct EngineRun {
  std::vector<std::vector<int64_t>> tokens;  // by request
  EngineStats stats;
};

struct Way {
  const char* name;
  BatchingOptions options;
};

const std::vector<Way>& ways() {
  static const std::vector<Way> list = {
      {"together", {}},
      {"chunks", {.max_num_seqs = 3, .max_num_batched_tokens = 8}},
      {"preemptions", {.block_size = 4, .num_blocks = 60}},
      {"guesses", {.speculative = {.num_speculative_tokens = 4, .prompt_lookup_max = 3, .prompt_lookup_min = 1}}},
  };
  return list;
}

class CompiledEngine : public testing::TestWithParam<const char*> {
 protected:
  CompiledEngine()
      : pool_(1),
        model_(load_model(resolve_model(GetParam()), {.format = LoadFormat::kDummy, .dtype = DType::kF32, .seed = 3},
                          pool_)) {}

  EngineRun run(const BatchingOptions& options) {
    BatchingEngine engine(model_, pool_, std::nullopt, options);
    EngineRun run;
    run.tokens.resize(4);
    for (size_t i = 0; i < run.tokens.size(); ++i) {
      Request request;
      const auto n = static_cast<int64_t>(i);
      for (int64_t t = 0; t < 3 + 9 * n; ++t)
        request.prompt.push_back((5 * n + 7 * t * t + 5 * t) % model_.config.facts.vocab_size);
      request.max_tokens = 110 - 3 * n;
      request.ignore_eos = true;
      engine.submit(request, [&run, i](const RequestOutput& output) {
        EXPECT_EQ(output.error, "");
        run.tokens[i].insert(run.tokens[i].end(), output.tokens.begin(), output.tokens.end());
      });
    }
    engine.run_until_idle();
    run.stats = engine.stats();
    return run;
  }

  // States of whole sequences cannot go back behind a wrong guess.
  std::vector<Way> possible_ways() const {
    std::vector<Way> list = ways();
    std::vector<StateSpec> states = collect_states(*model_.root);
    if (std::any_of(states.begin(), states.end(), [](const StateSpec& s) { return !s.per_token(); })) list.pop_back();
    return list;
  }

  ThreadPool pool_;
  Model model_;
};

// Every kernel that can be written, whether it is faster or not.
std::vector<PlannedRegion> all_kernels(GraphPhase, const GraphBody& flat) {
  std::vector<FoundRegion> found = find_regions(flat);
  std::vector<const FoundRegion*> all;
  for (const FoundRegion& f : found) all.push_back(&f);
  CompiledRegions compiled = compile_regions(all, flat);
  std::vector<PlannedRegion> regions;
  for (size_t i = 0; i < found.size(); ++i) regions.push_back({found[i].region, compiled.kernels[i]});
  return regions;
}

TEST_P(CompiledEngine, GivesTheTokensOfTheTreeInEveryStep) {
  for (const Way& way : possible_ways()) {
    SCOPED_TRACE(way.name);
    const EngineRun by_tree = run(way.options);
    EXPECT_EQ(by_tree.stats.compiled_steps, 0);
    CompiledModel compiled(model_);
    const EngineRun by_plan = run(way.options);
    EXPECT_EQ(by_plan.tokens, by_tree.tokens);
    EXPECT_EQ(by_plan.stats.steps, by_tree.stats.steps);
    // No batch of the engine is one that a plan does not take.
    EXPECT_EQ(by_plan.stats.compiled_steps, by_plan.stats.steps);
    EXPECT_EQ(compiled.calls_by_tree(), 0);
    if (std::string_view(way.name) == "preemptions") {
      EXPECT_GT(by_plan.stats.preemptions, 0);
    }
    if (std::string_view(way.name) == "chunks") {
      EXPECT_NE(compiled.plan(GraphPhase::kMixed), nullptr);
    }
  }
}

// Where sizes that come once are left to the tree, the others are run by plans.
TEST_P(CompiledEngine, LeavesSizesThatComeOnceToTheTree) {
  for (const Way& way : possible_ways()) {
    SCOPED_TRACE(way.name);
    const EngineRun by_tree = run(way.options);
    CompiledModel compiled(model_, {}, {.only_repeated_sizes = true});
    const EngineRun by_plan = run(way.options);
    EXPECT_EQ(by_plan.tokens, by_tree.tokens);
    EXPECT_GT(compiled.calls_by_tree(), 0) << "prompts";
    EXPECT_EQ(by_plan.stats.compiled_steps + compiled.calls_by_tree(), by_plan.stats.steps);
    EXPECT_GT(by_plan.stats.compiled_steps, by_plan.stats.steps / 4) << "most steps only decode";
  }
}

TEST_P(CompiledEngine, SlowGeneratedKernelsGiveTheTokensOfTheTree) {
  for (const Way& way : possible_ways()) {
    SCOPED_TRACE(way.name);
    const EngineRun by_tree = run(way.options);
    CompiledModel compiled(model_, all_kernels);
    const EngineRun by_plan = run(way.options);
    EXPECT_EQ(by_plan.tokens, by_tree.tokens);
    EXPECT_EQ(by_plan.stats.compiled_steps, by_plan.stats.steps);
    EXPECT_GT(compiled.plan(GraphPhase::kPrefill)->report().regions, 0);
  }
}

std::string name_of(const testing::TestParamInfo<const char*>& tested) {
  std::string name = tested.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Models, CompiledEngine, testing::Values("tiny-llama", "tiny-qwen3-moe", "tiny-jamba"),
                         name_of);
INSTANTIATE_TEST_SUITE_P(SlowModels, CompiledEngine,
                         testing::Values("tiny-gemma3", "tiny-mamba2", "tiny-rwkv7", "tiny-qwen3-next"), name_of);

}  // namespace
}  // namespace fk
