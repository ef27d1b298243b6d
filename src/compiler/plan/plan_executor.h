// PlanExecutor: runs the graph of one phase as a plain list of steps, by the operators of a model's tree.
//
// Everything that depends on names is looked up when it is made, and everything that depends on the sizes of a batch
// when those sizes are first seen. After that a run makes calls, and nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/plan/plan_layout.h"
#include "compiler/plan/region.h"
#include "core/memory.h"
#include "graph/graph.h"
#include "ops/node.h"

namespace fk {

// Which regions of a flat graph are made by one kernel.
using FindRegions = std::function<std::vector<PlannedRegion>(GraphPhase phase, const GraphBody& flat)>;

// Memory for the values of a pass; those of several plans share it, since one runs at a time.
struct PlanArena {
  Buffer memory = {};
  uint64_t moves = 0;  // counts the times it was replaced by a larger one
  Device device = kCpu;
  std::vector<Buffer> before = {};  // on a device: work that was recorded still uses them

  void grow(size_t bytes);
};

struct PlanOptions {
  // After every step: stop at the first one that gave a number that is not finite, and name one that throws or crashes.
  bool check_every_step = false;
  // run_if_it_fits() leaves prompts of a size that comes for the first time: to prepare it takes about as long as the
  // calls of a small model, which is lost where every batch has another size. What decodes has few sizes.
  bool only_repeated_sizes = false;
  std::shared_ptr<PlanArena> arena = nullptr;  // nullptr: of its own
  Device device = kCpu;                        // of the tree
};

// Of the batch that was run last.
struct PlanReport {
  size_t arena_bytes = 0, lower_bound_bytes = 0;  // of the values of a pass; the second is the least that is possible
  int64_t steps = 0, calls = 0, copies = 0;
  int64_t regions = 0;          // steps that are regions
  int64_t refused_regions = 0;  // whose kernel does not take this batch
  int64_t layouts = 0;          // sizes of batches that are prepared
};

class PlanExecutor {
 public:
  // `root` is a tree with its weights, which must outlive this; `weight` returns them by their paths. Compositions
  // whose first implementation replaces their parts stay calls. Throws Error where the tree is not that of the graph.
  PlanExecutor(const Graph& graph, Node& root, const Node::Lookup& weight, const FindRegions& find = {},
               const PlanOptions& options = {});
  ~PlanExecutor();

  // Whether this is a batch of the graph's phase, with the shapes that the graph says. `why` may be nullptr.
  bool takes(const Context& ctx, Args args, std::string* why = nullptr);
  // A whole call of the model: every argument of its operator, outputs included. Throws Error if it does not take it.
  void run(Context& ctx, Args args);
  // The same, but returns false if it does not take it, or leaves it; nothing has been done then.
  bool run_if_it_fits(Context& ctx, Args args);

  GraphPhase phase() const { return phase_; }
  const GraphBody& body() const { return flat_; }
  PlanReport report() const;

 private:
  struct Frame;  // everything that depends on the sizes of a batch
  struct Layout {
    PlanLayout plan;
    std::vector<size_t> memory_order;  // of the last plan of its memory
  };
  struct BatchPart {
    SequenceGroup AttentionMetadata::*group = nullptr;  // nullptr: the slot mapping
    View SequenceGroup::*part = nullptr;
  };
  struct External {
    ValueKind kind = ValueKind::kArgument;
    size_t index = 0;  // of the argument, the state, the weight, the part of the batch
    DType dtype = DType::kF32;
    std::vector<SymbolicSize> shape = {};
    std::string name = {};
    bool output = false;
  };

  void find_externals(const Node::Lookup& weight);
  const View* external_view(const External& external, const Context& ctx, Args args) const;
  BatchSizes sizes_of(const Context& ctx, Args args) const;
  bool comes_first(const BatchSizes& sizes);
  Frame* frame_for(const Context& ctx, Args args, std::string* why);
  bool fits(const External& external, const View* view, const BatchSizes& sizes, std::string* why) const;
  Layout& layout_with(const std::vector<bool>& active);
  std::vector<bool> regions_at_first() const;  // those that are used if none refuses its arrays
  void build(Frame& frame);
  void place_values(Frame& frame);
  bool drop_refused(Frame& frame);
  void run_frame(Context& ctx, Frame& frame);
  void run_step(Context& ctx, Frame& frame, size_t index);
  void run_checked(Context& ctx, Frame& frame, size_t index);
  void check_finite(const Frame& frame, size_t index) const;
  bool is_output(const Frame& frame, const View& external) const;
  std::string step_name(const Frame& frame, size_t index) const;

  GraphPhase phase_;
  GraphBody flat_;
  Node& root_;
  PlanOptions options_;
  std::vector<StateSpec> states_;
  std::vector<PlannedRegion> regions_;
  struct RegionText {
    std::string name, path;
  };
  std::vector<RegionText> region_texts_;
  std::vector<Node*> nodes_;         // of the calls among flat_.nodes; nothing for others
  std::vector<External> externals_;  // the inputs of flat_, then its outputs
  std::vector<View> weights_;
  std::vector<BatchPart> batch_parts_;
  std::optional<size_t> logits_argument_;
  int per_token_state_ = -1, per_sequence_state_ = -1;  // one of each kind, which tell how large the pools are
  std::map<std::vector<bool>, std::unique_ptr<Layout>> layouts_;  // by the regions that are made in one step
  std::vector<std::unique_ptr<Frame>> frames_;                    // the one used last first
  std::vector<BatchSizes> seen_;                                  // with only_repeated_sizes: the last ones
  size_t next_seen_ = 0;
};

// "rms_norm + linear", in the order of their calls.
std::string region_name(const GraphBody& body, const Region& region);

}  // namespace fk
