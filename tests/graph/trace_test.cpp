// Graphs of all models: well-formed, equal to their JSON, and with symbols that hold at other sizes.
#include "graph/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/json.h"
#include "engine/model.h"
#include "graph/flatten.h"
#include "graph/graph_dot.h"
#include "graph/graph_json.h"
#include "graph/open_bodies.h"
#include "tests/graph/tiny_models.h"

namespace fk {
namespace {

Graph graph_of(const std::string& name, GraphPhase phase) {
  const ModelConfig& config = find_catalog(name)->config;
  return trace_graph(*build_model(config, {.oracle = true}), name, phase, config.facts.dtype);
}

// The graph with the numbers of one batch in place of symbols.
Graph at_sizes(Graph graph, const BatchSizes& sizes) {
  for (GraphBody& body : graph.bodies) {
    for (GraphValue& value : body.values)
      for (SymbolicSize& size : value.shape) size = size.at(sizes);
    for (GraphNode& node : body.nodes)
      for (SymbolicSize& size : node.starts) size = size.at(sizes);
  }
  return graph;
}

void expect_sound(const CatalogEntry& entry, GraphPhase phase) {
  SCOPED_TRACE(entry.name + " " + std::string(phase_name(phase)));
  std::unique_ptr<Node> root = build_model(entry.config, {.oracle = true});
  DType dtype = entry.config.facts.dtype;
  Graph graph = trace_graph(*root, entry.name, phase, dtype);
  check_graph(graph);
  // The symbols hold for a batch of other sizes.
  const BatchSizes others{{101, 17, 7, 19, 211, 64, 29, 31}};
  Graph there = trace_at(*root, entry.name, phase, dtype, others);
  share_bodies(there);
  EXPECT_EQ(at_sizes(graph, others), there);
  EXPECT_EQ(graph_from_json(parse_json(dump_json(graph_to_json(graph)), "graph")), graph);
  // Operands of a node have different names, and the model's inputs are all weights and states of the tree.
  for (const GraphBody& body : graph.bodies)
    for (const GraphNode& node : body.nodes)
      for (const auto* operands : {&node.inputs, &node.outputs}) {
        std::set<std::string> names;
        for (const GraphOperand& o : *operands) names.insert(o.name);
        EXPECT_EQ(names.size(), operands->size()) << node.op << " at " << node.path;
      }
  std::set<std::string> wanted, seen;
  // The sinks of gpt-oss are parameters of both kernels, and such a batch calls one of them.
  auto of_other_phase = [&](const std::string& name) {
    return (phase == GraphPhase::kPrefill && name.ends_with("decode.sinks")) ||
           (phase == GraphPhase::kDecode && name.ends_with("prefill.sinks"));
  };
  for (const ParamSpec& p : collect_params(*root))
    if (!of_other_phase(p.name)) wanted.insert(p.name);
  for (const StateSpec& s : collect_states(*root)) wanted.insert(s.name);
  for (ValueId id : graph.root().inputs) {
    const GraphValue& value = graph.root().values[static_cast<size_t>(id)];
    if (value.kind == ValueKind::kParameter || value.kind == ValueKind::kState) seen.insert(value.name);
  }
  EXPECT_EQ(seen, wanted);
}

TEST(Trace, IsSoundInEveryFamily) {
  for (const CatalogEntry* entry : one_of_each_family()) expect_sound(*entry, phases_of(*entry).back());
}

TEST(Trace, SlowIsSoundForEveryTinyModelAndPhase) {
  for (const CatalogEntry* entry : tiny_models())
    for (GraphPhase phase : phases_of(*entry)) expect_sound(*entry, phase);
}

// The published models, whose weights are nowhere on this machine.
TEST(Trace, SlowIsSoundForEveryPublishedModel) {
  for (const CatalogEntry& entry : catalog())
    if (!entry.hf_id.empty()) expect_sound(entry, phases_of(entry).back());  // tiny ones: above
}

TEST(Trace, EqualLayersAreOneBody) {
  Graph graph = graph_of("llama-3.1-8b", GraphPhase::kPrefill);
  std::vector<int64_t> layers;
  for (const GraphBody& body : graph.bodies)
    if (body.op == "llama_decoder_layer") layers.push_back(body.repeats);
  // The first has no residual.
  EXPECT_EQ(layers, (std::vector<int64_t>{1, 31}));
  // Gemma's sliding layers differ from the global ones.
  Graph gemma = graph_of("tiny-gemma3", GraphPhase::kDecode);
  layers.clear();
  for (const GraphBody& body : gemma.bodies)
    if (body.op == "gemma3_decoder_layer") layers.push_back(body.repeats);
  EXPECT_EQ(layers, (std::vector<int64_t>{1, 4, 1}));
}

TEST(Trace, SlicesAndUpdatesAreNodes) {
  Graph graph = graph_of("tiny-llama", GraphPhase::kMixed);
  auto body_of = [&](std::string_view op) {
    return *std::find_if(graph.bodies.begin(), graph.bodies.end(), [&](const GraphBody& b) { return b.op == op; });
  };
  GraphBody attention = body_of("attention");
  std::vector<std::string> nodes;
  for (const GraphNode& node : attention.nodes) nodes.push_back(node_text(attention, node));
  EXPECT_EQ(nodes, (std::vector<std::string>{"reshape", "reshape", "store_kvcache", "slice [:Sd, :]", "reshape",
                                             "flash_attn_decode", "slice [Sd:, :]", "reshape", "flash_attn_prefill",
                                             "reshape", "reshape", "concat"}));
  ASSERT_EQ(attention.outputs.size(), 3u);
  EXPECT_EQ(attention.outputs[1].name, "key_cache");
  // Kernels read the updated state, not the one of before.
  const GraphNode& store = attention.nodes[2];
  EXPECT_EQ(attention.nodes[5].input("k_cache")->value, store.output("key_cache")->value);
  EXPECT_NE(store.input("key_cache")->value, store.output("key_cache")->value);
  // Rotated queries are new values, although the kernel writes them in place.
  GraphBody block = body_of("llama_attention");
  auto rotary =
      std::find_if(block.nodes.begin(), block.nodes.end(), [](const GraphNode& n) { return n.op == "rotary_emb"; });
  auto attn =
      std::find_if(block.nodes.begin(), block.nodes.end(), [](const GraphNode& n) { return n.op == "attention"; });
  ASSERT_NE(rotary, block.nodes.end());
  EXPECT_EQ(attn->input("query")->value, rotary->output("query")->value);
}

TEST(Trace, FlatGraphsHaveTheCallsOfAPass) {
  for (const char* model : {"tiny-qwen2-moe", "tiny-siglip"}) {
    Graph graph = graph_of(model, phases_of(*find_catalog(model))[0]);
    GraphBody flat = flatten(graph);
    auto calls = std::count_if(flat.nodes.begin(), flat.nodes.end(), [](const GraphNode& n) { return n.is_call(); });
    EXPECT_EQ(calls, count_kernel_calls(graph));
    for (const GraphNode& node : flat.nodes) EXPECT_LE(node.level, 1);
    check_graph({graph.model, graph.phase, {flat}});
    check_graph(open_bodies(graph, 3));
    EXPECT_EQ(open_bodies(graph, 3).bodies.size(), 1u);
  }
}

TEST(Trace, DamagedGraphsAreRefused) {
  Graph good = graph_of("tiny-llama", GraphPhase::kDecode);
  auto refused = [&](auto damage) {
    Graph graph = good;
    damage(graph);
    EXPECT_THROW(check_graph(graph), Error);
  };
  refused([](Graph& g) { std::swap(g.bodies.back().nodes.front(), g.bodies.back().nodes.back()); });
  refused([](Graph& g) { g.bodies.back().nodes[0].outputs[0].value = g.bodies.back().inputs[0]; });
  refused([](Graph& g) { g.bodies.back().nodes[0].inputs[0].value = 100000; });
  refused([](Graph& g) { g.bodies.front().repeats += 1; });
  refused([](Graph& g) { g.bodies.clear(); });
  refused([](Graph& g) { g.bodies.back().values.emplace_back(); });
  for (const char* text : {"{}", "[]", R"({"model": "x", "phase": "prefill", "bodies": []})",
                           R"({"model": "x", "phase": "later", "bodies": []})"})
    EXPECT_THROW(graph_from_json(parse_json(text, "graph")), Error) << text;
}

}  // namespace
}  // namespace fk
