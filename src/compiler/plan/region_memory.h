// RegionMemory: random inputs of a region at the sizes of one batch, and the region's calls on them, one by one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compiler/plan/find_regions.h"
#include "core/memory.h"
#include "ops/node.h"

namespace fk {

// A batch with this many rows, whatever they count.
BatchSizes sizes_with_rows(GraphPhase phase, int64_t rows);
// The same for trials of this region.
BatchSizes trial_sizes(const FoundRegion& found, GraphPhase phase, int64_t rows, bool timed);

class RegionMemory {
 public:
  // The same seed gives the same inputs. Where the graph slices rows out of wider ones, so does this. Integers are
  // indices of what the region gathers or stores; no two rows are stored to one place.
  RegionMemory(const GraphBody& flat, const FoundRegion& found, const BatchSizes& sizes, uint64_t seed,
               Device device = kCpu);

  const std::vector<View>& inputs() const { return inputs_; }
  // The same on the CPU; on another device those as they were made.
  const std::vector<View>& host_inputs() const { return device_ == kCpu ? inputs_ : host_inputs_; }
  // Memory for a kernel of the region: states are the inputs themselves.
  const std::vector<View>& outputs() const { return outputs_; }
  void poison_outputs();
  // After poison_outputs(): the first result behind whose end something was written.
  std::optional<size_t> overrun() const;

  // The calls, as a model makes them: updates in place change inputs.
  void call(Context& ctx);
  // What they made of the outputs.
  std::vector<View> called() const;
  // The sum of the calls' tolerances on these inputs.
  Tolerance tolerance() const;

 private:
  View make(const TensorSpec& spec);
  View make_output(const TensorSpec& spec);
  void fill_inputs(const FoundRegion& found, uint64_t seed);
  bool fill_length(size_t input, uint64_t seed);  // of attention; false: the input is something else
  void move_inputs();                             // to the device
  void prepare_calls();
  View moved(const GraphNode& node, const View& from) const;
  Shape shape_of(ValueId id) const;

  const GraphBody& flat_;
  const Region& region_;
  const BatchSizes sizes_;
  const Device device_;
  std::vector<Tensor> memory_, host_memory_;
  std::vector<View> inputs_, outputs_, host_inputs_;
  std::vector<View> whole_outputs_;  // with rows behind them; empty for states
  std::vector<View> views_;          // by value of the graph: those of the calls
  struct Call {
    std::unique_ptr<Node> node;
    std::vector<OptView> args;
    std::vector<View> states;
  };
  std::vector<Call> calls_;
};

}  // namespace fk
