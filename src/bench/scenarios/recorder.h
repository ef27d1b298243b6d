// CallRecorder: records the arguments of every operator call of a run; equal calls are counted together.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/scenarios/fit_workload.h"
#include "bench/scenarios/scenario.h"
#include "core/memory.h"

namespace fk {

// A call as a scenario without a name, and where in the tree it was first seen.
struct RecordedCall {
  Scenario scenario;
  std::string path;
  std::string step;                                    // the batch it was seen in: "decode-32", "prefill-9", "mixed-7"
  std::vector<std::pair<std::string, Tensor>> golden;  // by argument: values of the integer inputs, where asked for
  Tensor block_table;                                  // of the sequences of the workload; empty where none is needed
};

class CallRecorder final : public CallObserver {
 public:
  // `golden`: keep the values of integer inputs too, of the first of equal calls. `only`: calls of this operator alone,
  // of every one where it is empty.
  explicit CallRecorder(bool golden = false, std::string only = {}) : golden_(golden), only_(std::move(only)) {}

  bool before_call(const Node& node, const Context& ctx, Args args) override;

  std::vector<RecordedCall>& calls() { return calls_; }  // in the order first seen
  // The calls so far, which are then forgotten. Nodes are not: they are known by their addresses, so the trees of all
  // calls must live as long as the recorder.
  std::vector<RecordedCall> take_calls();
  const std::vector<std::string>& unmatched() const { return unmatched_; }  // calls no workload explains

 private:
  // Operators with the same constructor arguments, anywhere in the tree.
  struct Kind {
    std::string text;
    Fields init;
  };

  size_t kind_of(const Node& node);
  void look_at(const AttentionMetadata& metadata);
  std::string key_of(size_t kind, const Node& node, Args given) const;
  size_t add(const Node& node, size_t kind, const Context& ctx, Args given);
  void keep_golden(RecordedCall& call, const FittedWorkload& fitted, const Context& ctx, Args given);

  bool golden_;
  std::string only_;
  SeenBatch batch_;
  int64_t batch_number_ = 0;  // equal for batches that count as equal
  std::unordered_map<std::string, int64_t> number_by_batch_;
  std::string step_;
  std::unordered_map<const Node*, size_t> kind_by_node_;
  std::unordered_map<std::string, size_t> kind_by_text_;
  std::vector<Kind> kinds_;
  std::unordered_map<std::string, size_t> call_by_key_;       // kind, shapes and batch -> index into calls_
  std::unordered_map<std::string, size_t> call_by_scenario_;  // scenario -> index into calls_
  std::vector<RecordedCall> calls_;
  std::vector<std::string> unmatched_;
};

// Equal for scenarios that ask for the same call, whatever their names and models.
std::string call_text(const Scenario& scenario);

}  // namespace fk
