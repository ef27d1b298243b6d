// StepTrace: what a pass spends its time with, as a trace for Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/ttft/ttft.h"
#include "compiler/plan/plan_observer.h"
#include "core/json.h"

namespace fk {

// One span for every call of an operator, and every region of a plan. Spans of a composition's parts lie inside of its
// own. On a device every kernel is waited for, so that a span is the time of its kernel.
class StepTrace final : public PlanObserver {
 public:
  // A span around what happens until end(): "prefill, 64 tokens".
  void begin(std::string name);
  void end();

  bool before_call(const Node& node, const Context& ctx, std::span<const OptView> args) override;
  void after_call(const Node& node, std::string_view implementation) override;
  void before_region(std::string_view name, std::string_view path, std::span<const View> inputs,
                     std::span<const View> outputs) override;
  void after_region() override;

  // What the first and the last pass called themselves, without what these calls called: [{pass, steps: [{kind, name,
  // path, implementation, us}]}], kind "call" or "region".
  Json steps() const;
  // In the trace event format. `title` names the process that the spans belong to.
  Json to_json(const std::string& title) const;

 private:
  struct Span {
    std::string name, kind;
    std::string path = {}, implementation = {}, shapes = {};
    int level = 0;
    size_t depth = 0;  // 0: a pass
    int64_t begin_ns = 0, end_ns = 0;
  };

  size_t open(Span span);
  void close();

  std::vector<Span> spans_;  // in the order in which they began
  std::vector<size_t> open_;
  Device region_device_ = kCpu;  // of the region that is open
};

// One prefill and up to `steps` decode steps, or one pass of an encoder, after one of each that is not traced.
void trace_passes(const Model& model, ThreadPool& pool, const TtftOptions& options, int64_t steps, StepTrace& trace);

}  // namespace fk
