// CallTracer: records the calls of one dry run as bodies with the sizes of that run.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "graph/trace_scope.h"
#include "ops/forward_context.h"

namespace fk {

class CallTracer final : public CallObserver {
 public:
  // `leaves` must outlive it.
  CallTracer(const Node& root, const TraceLeaves& leaves);

  // Compositions run, so that their calls are seen; kernels do not.
  bool before_call(const Node& node, const Context& ctx, Args args) override;

  // After the run: its bodies, each after those it calls.
  std::vector<GraphBody> finish();

 private:
  // A composition that is running.
  struct Running {
    TraceScope scope;
    GraphNode call;
    std::vector<OptView> args;
  };

  void open(const Node& node, Args args);
  void close();
  void record(const Node& node, Args args);
  GraphNode call_of(const Node& node, const TraceScope* caller) const;

  const TraceLeaves& leaves_;
  std::unordered_map<const Node*, const Node*> parents_;
  std::vector<Running> running_;  // the innermost last
  std::vector<GraphBody> bodies_;
};

}  // namespace fk
