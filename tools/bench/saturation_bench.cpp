// Times the e-graph of the search compiler on graphs of models: saturation_bench [--json] [MODEL]...
// Without models: all tiny ones of the catalog, and qwen3-4b with its 36 layers.
//
// A graph is rolled: a body that repeats, a layer, is saturated once, however often a pass runs it. The model's own
// body has its layers as calls. Graphs need no weights. The least of several runs is reported, by the CPU time of this
// process, so that other programs of a busy machine count little.
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "compiler/egraph/rewrite.h"
#include "compiler/plan/find_regions.h"
#include "compiler/program.h"
#include "core/json.h"
#include "engine/model.h"
#include "graph/flatten.h"
#include "graph/open_bodies.h"
#include "graph/trace.h"
#include "measure/cpu_time.h"
#include "models/catalog.h"

namespace {

using namespace fk;

constexpr int kRuns = 3;

size_t heap_bytes() {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

// The expressions that are saturated: those of each body that the model's own body calls, opened down to definitions,
// and those of the model's own body, where these bodies stay calls.
std::vector<Program> rolled_programs(const Graph& graph) {
  const BatchSizes sizes = varying_sizes();
  std::vector<Program> programs;
  std::set<int> seen;
  std::set<std::string> layers;  // operators that are bodies of their own
  for (const GraphNode& node : graph.root().nodes) {
    if (node.body == GraphNode::kNoBody) continue;
    layers.insert(node.op);
    if (!seen.insert(node.body).second) continue;
    Graph body{graph.model, graph.phase, {graph.bodies.begin(), graph.bodies.begin() + node.body + 1}};
    programs.push_back(make_program(body, sizes, [](const GraphNode&) { return true; }));
  }
  Graph own{graph.model, graph.phase, {graph.root()}};
  for (GraphNode& node : own.bodies[0].nodes) node.body = GraphNode::kNoBody;
  programs.push_back(make_program(own, sizes, [&](const GraphNode& node) { return !layers.contains(node.op); }));
  return programs;
}

struct Result {
  std::string model;
  GraphPhase phase = GraphPhase::kPrefill;
  int64_t calls = 0;   // of bodies, by the model's own body: its layers and a few more
  int64_t bodies = 0;  // different ones
  size_t nodes_before = 0, nodes = 0;
  int iterations = 0;  // of the body that took most
  bool saturated = true;
  double trace_ms = 0, saturate_ms = 0, regions_ms = 0;
  size_t memory_bytes = 0;  // of all e-graphs
};

Result measure(const CatalogEntry& entry, GraphPhase phase) {
  Result r{.model = entry.name, .phase = phase};
  CpuStopwatch tracing;
  std::unique_ptr<Node> root = build_model(entry.config, {.oracle = true});
  Graph graph = trace_graph(*root, entry.name, phase, entry.config.facts.dtype);
  r.trace_ms = 1e3 * tracing.elapsed_s();
  for (const GraphNode& node : graph.root().nodes) r.calls += node.body != GraphNode::kNoBody ? 1 : 0;
  const std::vector<Program> programs = rolled_programs(graph);
  r.bodies = std::ssize(programs);
  for (int run = 0; run < kRuns; ++run) {
    std::vector<std::unique_ptr<EGraph>> graphs;
    const size_t heap = heap_bytes();
    double seconds = 0;
    r.nodes_before = r.nodes = 0;
    r.iterations = 0;
    for (const Program& program : programs) {
      EGraph& egraph = *graphs.emplace_back(std::make_unique<EGraph>());
      CpuStopwatch saturating;
      egraph.add_all(program.exprs());
      r.nodes_before += egraph.num_nodes();
      SaturationReport report = saturate(egraph, algebra_rules());
      seconds += saturating.elapsed_s();
      r.nodes += egraph.num_nodes();
      r.iterations = std::max(r.iterations, report.iterations);
      r.saturated = r.saturated && report.saturated;
    }
    r.memory_bytes = heap_bytes() - heap;
    r.saturate_ms = run == 0 ? 1e3 * seconds : std::min(r.saturate_ms, 1e3 * seconds);
  }
  // What a search does: regions of the whole pass, with the expressions of every different call.
  const GraphBody flat = flatten(graph);
  CpuStopwatch finding;
  find_regions(flat);
  r.regions_ms = 1e3 * finding.elapsed_s();
  return r;
}

Json to_json(const Result& r) {
  return {{"model", r.model},
          {"phase", phase_name(r.phase)},
          {"calls", r.calls},
          {"bodies", r.bodies},
          {"nodes_before", r.nodes_before},
          {"nodes", r.nodes},
          {"iterations", r.iterations},
          {"saturated", r.saturated},
          {"trace_ms", r.trace_ms},
          {"saturate_ms", r.saturate_ms},
          {"regions_ms", r.regions_ms},
          {"memory_bytes", r.memory_bytes}};
}

}  // namespace

int main(int argc, char** argv) {
  using namespace fk;
  bool json = false;
  std::vector<const CatalogEntry*> entries;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
      continue;
    }
    entries.push_back(find_catalog(argv[i]));
    if (entries.back() == nullptr) {
      fmt::print(stderr, "The catalog has no model {}; `fastkernels list` shows it.\n", argv[i]);
      return 2;
    }
  }
  if (entries.empty()) {
    for (const CatalogEntry& entry : catalog())
      if (entry.hf_id.empty()) entries.push_back(&entry);
    entries.push_back(find_catalog("qwen3-4b"));
  }
  Json list = Json::array();
  if (!json)
    fmt::print("{:<24} {:<8} {:>6} {:>6} {:>8} {:>8} {:>6} {:>9} {:>9} {:>10} {:>8}\n", "model", "phase", "calls",
               "bodies", "nodes", "after", "rounds", "trace ms", "saturate", "regions ms", "MiB");
  for (const CatalogEntry* entry : entries) {
    const bool stateless = is_stateless(entry->config.facts.task);
    for (GraphPhase phase : stateless ? std::vector{GraphPhase::kEncode} : std::vector{GraphPhase::kDecode}) {
      Result r = measure(*entry, phase);
      list.push_back(to_json(r));
      if (!json)
        fmt::print("{:<24} {:<8} {:>6} {:>6} {:>8} {:>8} {:>5}{} {:>9.1f} {:>9.1f} {:>10.1f} {:>8.2f}\n", r.model,
                   phase_name(phase), r.calls, r.bodies, r.nodes_before, r.nodes, r.iterations, r.saturated ? ' ' : '!',
                   r.trace_ms, r.saturate_ms, r.regions_ms, static_cast<double>(r.memory_bytes) / (1 << 20));
    }
  }
  if (json)
    fmt::print("{}\n", dump_json(list));
  else
    fmt::print("times in ms of CPU; saturate: the least of {} runs; !: a limit came before saturation\n", kRuns);
}
