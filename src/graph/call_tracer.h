// CallTracer: records the calls of one dry run as bodies with the sizes of that run.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "graph/subtree_classes.h"
#include "graph/trace_scope.h"
#include "ops/forward_context.h"

namespace fk {

class CallTracer final : public CallObserver {
 public:
  // `leaves` must outlive it. With `classes`, a composition that is built like an earlier one and called with arguments
  // like those of it does not run again: it has the same body. nullptr: all run, each with a body of its own.
  CallTracer(const Node& root, const TraceLeaves& leaves, const SubtreeClasses* classes = nullptr);

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
    std::string kind;  // of the call, as call_kind() says
  };

  // Calls of one kind have the same body. Empty: that is not asked for.
  std::string call_kind(const Node& node, const Context& ctx, Args args) const;
  void open(const Node& node, Args args, std::string kind);
  // A call whose body is known.
  void repeat(const Node& node, Args args, int body);
  void close();
  void record(const Node& node, Args args);
  GraphNode call_of(const Node& node, const TraceScope* caller) const;

  const TraceLeaves& leaves_;
  const SubtreeClasses* classes_;
  std::unordered_map<std::string, int> bodies_of_;  // by the kind of call
  std::unordered_map<const Node*, const Node*> parents_;
  std::vector<Running> running_;  // the innermost last
  std::vector<GraphBody> bodies_;
};

}  // namespace fk
