#include "graph/trace.h"

#include <algorithm>

#include "graph/call_tracer.h"
#include "graph/dry_batch.h"
#include "graph/unify.h"

namespace fk {

Graph trace_at(Node& root, const std::string& model, GraphPhase phase, DType activations, const BatchSizes& sizes) {
  DryBatch batch(root, phase, sizes, activations);
  CallTracer tracer(root, batch.leaves());
  batch.run(tracer);
  return {model, phase, tracer.finish()};
}

Graph trace_graph(Node& root, const std::string& model, GraphPhase phase, DType activations) {
  std::vector<Graph> traces;
  std::vector<BatchSizes> samples = sample_sizes(phase);
  for (const BatchSizes& sizes : samples) traces.push_back(trace_at(root, model, phase, activations, sizes));
  Graph graph = unify_graphs(std::move(traces), samples);
  share_bodies(graph);
  check_graph(graph);
  return graph;
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
