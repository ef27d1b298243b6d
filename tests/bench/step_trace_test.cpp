// Traces of passes: spans nest, have the names and places of the calls, and follow one another.
#include "bench/ttft/step_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bench/ttft/ttft_outputs.h"
#include "compiler/plan/compiled_model.h"
#include "core/error.h"
#include "graph/flatten.h"
#include "graph/trace.h"
#include "tests/compiler/region_by_calls.h"

namespace fk {
namespace {

struct Event {
  std::string name, kind, path;
  int level = 0;
  double begin = 0, end = 0;
  size_t depth = 0;
};

// The spans of a trace, with how many others each lies in. They must lie inside or behind one another.
std::vector<Event> events_of(const Json& json) {
  std::vector<Event> list;
  std::vector<double> ends;
  double last = 0;
  const Json read = parse_json(dump_json(json), "trace");
  for (const Json& e : read.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    Event event{e.at("name").get<std::string>(), e.at("cat").get<std::string>(),
                e.at("args").value("path", ""),  e.at("args").value("level", 0),
                e.at("ts").get<double>(),        e.at("ts").get<double>() + e.at("dur").get<double>()};
    EXPECT_GE(event.begin, last) << event.name;
    EXPECT_GE(event.end, event.begin) << event.name;
    last = event.begin;
    while (!ends.empty() && ends.back() <= event.begin + 1e-4) ends.pop_back();
    if (!ends.empty()) {
      EXPECT_LE(event.end, ends.back() + 1e-4) << event.name << " ends behind what it lies in";
    }
    event.depth = ends.size();
    ends.push_back(event.end);
    list.push_back(std::move(event));
  }
  return list;
}

struct Traced {
  Traced() : model(load_model(resolve_model("tiny-llama"), {.format = LoadFormat::kDummy}, pool)) {}

  std::vector<Event> trace() {
    StepTrace trace;
    trace_passes(model, pool, options, 3, trace);
    return events_of(trace.to_json("a test"));
  }
  GraphBody flat(GraphPhase phase) const {
    std::unique_ptr<Node> tree = build_model(model.config, {.oracle = true});
    return flatten(trace_graph(*tree, "tiny-llama", phase, model.config.facts.dtype));
  }

  ThreadPool pool{1};
  Model model;
  TtftOptions options{.prompt_tokens = 9, .decode_tokens = 5};
};

// Kernels of the pass with this number, as "op at path".
std::vector<std::string> kernels_in(const std::vector<Event>& events, size_t pass) {
  std::vector<std::string> list;
  size_t passes = 0;
  for (const Event& e : events) {
    passes += e.kind == "pass" ? 1 : 0;
    if (passes == pass + 1 && e.kind != "pass" && e.level <= 1) list.push_back(e.name + " at " + e.path);
  }
  return list;
}

std::vector<std::string> calls_of(const GraphBody& body) {
  std::vector<std::string> list;
  for (const GraphNode& node : body.nodes)
    if (node.is_call()) list.push_back(node.op + " at " + node.path);
  return list;
}

// Behind the model's kernels come those that draw a token.
void expect_begins_with(const std::vector<std::string>& list, const std::vector<std::string>& first) {
  ASSERT_GE(list.size(), first.size());
  EXPECT_EQ(std::vector<std::string>(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(first.size())), first);
}

TEST(StepTrace, EagerPassesAreNestedCompositions) {
  Traced t;
  const std::vector<Event> events = t.trace();
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].name, "prefill of 9 tokens");
  EXPECT_EQ(events[1].name, "llama_for_causal_lm");
  EXPECT_EQ(events[1].depth, 1u);
  size_t deepest = 0, passes = 0;
  for (const Event& e : events) {
    deepest = std::max(deepest, e.depth);
    passes += e.kind == "pass" ? 1 : 0;
    EXPECT_EQ(e.kind == "pass", e.depth == 0) << e.name;
  }
  EXPECT_EQ(passes, 4u);
  EXPECT_GE(deepest, 5u);  // pass, model, layer, attention, projection, product
  EXPECT_EQ(kernels_in(events, 0), calls_of(t.flat(GraphPhase::kPrefill)));
  expect_begins_with(kernels_in(events, 2), calls_of(t.flat(GraphPhase::kDecode)));
}

TEST(StepTrace, CompiledPassesAreAListOfKernels) {
  Traced t;
  CompiledModel compiled(t.model);
  const std::vector<Event> events = t.trace();
  for (const Event& e : events) EXPECT_EQ(e.depth, e.kind == "pass" ? 0u : 1u) << e.name;
  EXPECT_EQ(kernels_in(events, 0), calls_of(t.flat(GraphPhase::kPrefill)));
  expect_begins_with(kernels_in(events, 3), calls_of(t.flat(GraphPhase::kDecode)));
  EXPECT_EQ(compiled.calls_by_tree(), 0);
}

// A region is one span, with the names of its operators.
TEST(StepTrace, RegionsAreSpans) {
  Traced t;
  AttentionMetadata batch;  // only the number of tokens matters to this region
  batch.prefill.num_sequences = 1;
  batch.prefill.num_tokens = 9;
  CompiledModel compiled(t.model, [&](GraphPhase phase, const GraphBody& body) {
    std::vector<PlannedRegion> list;
    for (size_t n = 0; n + 1 < body.nodes.size() && phase == GraphPhase::kPrefill; ++n)
      if (body.nodes[n].op == "silu_and_mul" && body.nodes[n + 1].op == "linear") {
        Region region = region_of(body, {n, n + 1});
        list.push_back({region, std::make_shared<RegionByCalls>(body, region, &batch)});
      }
    return list;
  });
  const std::vector<Event> events = t.trace();
  std::vector<std::string> regions;
  for (const Event& e : events)
    if (e.kind == "region") regions.push_back(e.name + " at " + e.path);
  EXPECT_EQ(regions, (std::vector<std::string>{"silu_and_mul + linear at model.layers.0.mlp.act_fn",
                                               "silu_and_mul + linear at model.layers.1.mlp.act_fn"}));
}

TEST(StepTrace, EncodersHaveOnePass) {
  ThreadPool pool(1);
  Model model = load_model(resolve_model("tiny-xlm-roberta"), {.format = LoadFormat::kDummy}, pool);
  StepTrace trace;
  trace_passes(model, pool, {.prompt_tokens = 9, .batch_size = 2}, 3, trace);
  const std::vector<Event> events = events_of(trace.to_json("a test"));
  ASSERT_GT(events.size(), 5u);
  EXPECT_EQ(events[0].name, "2 texts");
  for (size_t i = 1; i < events.size(); ++i) EXPECT_GT(events[i].depth, 0u);
}

TEST(TtftOutputs, PathsWithTheSameKernelsGiveTheSame) {
  for (const char* name : {"tiny-llama", "tiny-mamba", "tiny-xlm-roberta"}) {
    SCOPED_TRACE(name);
    ThreadPool pool(2);
    Model model = load_model(resolve_model(name), {.format = LoadFormat::kDummy}, pool);
    const TtftOptions options{.prompt_tokens = 12, .decode_tokens = 6, .batch_size = 2};
    const TtftOutputs eager = run_outputs(model, pool, options);
    CompiledModel compiled(model);
    OutputComparison same = compare_outputs(eager, run_outputs(model, pool, options));
    EXPECT_TRUE(same.equal());
    EXPECT_TRUE(same.same_bits);
    ASSERT_EQ(eager.margins.size(), eager.tokens.size());
    for (const std::vector<double>& margins : eager.margins) {
      EXPECT_EQ(margins.size(), 6u);
      for (double margin : margins) EXPECT_TRUE(margin >= 0 && margin < 2) << margin;
    }
    EXPECT_EQ(comparison_text(same, "eager", "compiled"),
              eager.tokens.empty()
                  ? "vectors equal bit for bit"
                  : "the same 6 greedy tokens of each of 2 sequences, logits of the prompt equal bit for bit");
  }
}

TEST(TtftOutputs, DifferencesAreNamed) {
  TtftOutputs a{.prompts_hash = 1, .tokens = {{4, 5, 6}, {7, 8, 9}}, .numbers = {1, -4}, .bits = 1}, b = a;
  a.margins = {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.004}};
  b.tokens[1][2] = 3;
  b.numbers[0] = 1.5;
  b.bits = 2;
  OutputComparison c = compare_outputs(a, b);
  EXPECT_FALSE(c.equal());
  EXPECT_EQ(comparison_text(c, "eager", "compiled"),
            "TOKENS DIFFER: sequence 2, step 3 of 3: 9 by eager, 3 by compiled, where the best two logits of eager are "
            "4.0e-03 of the largest apart; logits of the prompt differ by at most 1.2e-01 of the largest");
  b.prompts_hash = 2;
  EXPECT_FALSE(compare_outputs(a, b).equal());
  EXPECT_NE(comparison_text(compare_outputs(a, b), "a", "b").find("prompts differ"), std::string::npos);
  b = a;
  b.numbers[1] = std::nan("");
  b.bits = 5;
  EXPECT_FALSE(compare_outputs(a, b).same_bits);
  EXPECT_EQ(compare_outputs(a, b).largest_difference, 1);
  // An encoder draws no tokens, so its numbers decide.
  a = {.prompts_hash = 1, .numbers = {1, -4}, .bits = 1};
  b = {.prompts_hash = 1, .numbers = {1.1, -4}, .bits = 2};
  EXPECT_TRUE(compare_outputs(a, b).equal());
  b.numbers[0] = -3;
  EXPECT_FALSE(compare_outputs(a, b).equal());
}

}  // namespace
}  // namespace fk
