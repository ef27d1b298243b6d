#include "graph/trace.h"

#include <algorithm>

#include "core/error.h"
#include "graph/call_tracer.h"
#include "graph/dry_batch.h"
#include "graph/unify.h"

namespace fk {

namespace {

Graph traced(Node& root, const std::string& model, GraphPhase phase, DType activations, const BatchSizes& sizes,
             const SubtreeClasses* classes) {
  DryBatch batch(root, phase, sizes, activations);
  CallTracer tracer(root, batch.leaves(), classes);
  batch.run(tracer);
  return {model, phase, tracer.finish()};
}

Graph with_symbols(Node& root, const std::string& model, GraphPhase phase, DType activations,
                   const SubtreeClasses* classes) {
  std::vector<Graph> traces;
  std::vector<BatchSizes> samples = sample_sizes(phase);
  for (const BatchSizes& sizes : samples) {
    // A symbol that this phase does not have has no sample of its own.
    const bool first = traces.empty() || sizes.of != samples[0].of;
    traces.push_back(first ? traced(root, model, phase, activations, sizes, classes) : traces[0]);
  }
  Graph graph = unify_graphs(std::move(traces), samples);
  share_bodies(graph);
  check_graph(graph);
  return graph;
}

}  // namespace

Graph trace_at(Node& root, const std::string& model, GraphPhase phase, DType activations, const BatchSizes& sizes) {
  return traced(root, model, phase, activations, sizes, nullptr);
}

Graph trace_graph(Node& root, const std::string& model, GraphPhase phase, DType activations) {
  const SubtreeClasses classes(root);
  try {
    return with_symbols(root, model, phase, activations, &classes);
  } catch (const Error&) {
    // Calls that are alike at some sizes only, or an error in the model, which a trace of all calls names.
    return with_symbols(root, model, phase, activations, nullptr);
  }
}

void share_bodies(Graph& graph) {
  std::vector<GraphBody> shared;
  std::vector<int> now_at;  // by the earlier index
  for (GraphBody& body : graph.bodies) {
    for (GraphNode& node : body.nodes)
      if (node.body != GraphNode::kNoBody) node.body = now_at[static_cast<size_t>(node.body)];
    body.repeats = 1;
    // The root stays the last.
    auto same = &body == &graph.bodies.back() ? shared.end() : std::find(shared.begin(), shared.end(), body);
    now_at.push_back(static_cast<int>(same - shared.begin()));
    if (same == shared.end()) shared.push_back(std::move(body));
  }
  graph.bodies = std::move(shared);
  std::vector<int64_t> repeats = count_repeats(graph);
  for (size_t i = 0; i < repeats.size(); ++i) graph.bodies[i].repeats = repeats[i];
}

}  // namespace fk
