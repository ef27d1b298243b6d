// OperatorTimes: how the time of forward passes is divided over the operators. Every operator is charged with its own
// time, without that of the operators it calls. A generated kernel of a plan is charged under the names of the
// operators it stands for: "rms_norm + linear".
//
// On the CPU by the clock; on a device by events before and after every call, in a step that is not recorded as a
// graph, so that gaps between launches are part of what an operator costs there.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/plan/plan_observer.h"
#include "core/device_runtime.h"
#include "ops/node.h"

namespace fk {

struct OperatorShare {
  std::string op, implementation;
  int64_t calls = 0;
  double own_ms = 0;
  double inclusive_ms = 0;  // with the operators it calls
  double share = 0;         // of all operators' time
};

// One call of one step, for a picture of the step.
struct CallSpan {
  std::string op, implementation, path;
  int depth = 0;
  double start_ms = 0, duration_ms = 0;  // since the step's first call
};

class OperatorTimes final : public PlanObserver {
 public:
  // `calls_kept`: spans that are kept of every forward pass, for last_step().
  explicit OperatorTimes(Device device, size_t calls_kept = 4096);
  ~OperatorTimes() override;

  bool before_call(const Node& node, const Context& ctx, std::span<const OptView> args) override;
  void after_call(const Node& node, std::string_view implementation) override;
  void before_pass() override { in_pass_ = is_pass_ = true; }
  void after_pass() override;
  void before_region(std::string_view name, std::string_view path, std::span<const View> inputs,
                     std::span<const View> outputs) override;
  void after_region() override;

  // Largest first. Only between forward passes.
  std::vector<OperatorShare> shares() const;
  double total_ms() const;
  // The calls of the last forward pass, in order.
  const std::vector<CallSpan>& last_step() const { return step_; }
  int64_t steps() const { return steps_; }

 private:
  struct Open {
    int64_t start_ns = 0;
    double inner_ms = 0;
    size_t span = 0;
  };
  struct DeviceSpans;

  void begin(std::string_view op, std::string_view path);
  void end(std::string_view op, std::string_view implementation);
  void end_step();

  std::vector<Open> open_;
  bool in_pass_ = false;  // of a plan
  bool is_pass_ = false;  // what runs is a pass, of a plan or of a tree
  std::string region_;    // that runs
  std::vector<CallSpan> spans_, step_;
  struct Total {
    int64_t calls = 0;
    double own_ms = 0, inclusive_ms = 0;
    void add(double duration_ms, double inner_ms);
  };
  std::map<std::pair<std::string, std::string>, Total> totals_;  // by operator and implementation
  size_t calls_kept_;
  int64_t step_start_ns_ = 0, steps_ = 0;
  std::unique_ptr<DeviceSpans> device_;
};

// What a kernel that is `kernel_speedup` times as fast gives where it has this share of the time (Amdahl's law).
double expected_speedup(double share, double kernel_speedup);

}  // namespace fk
