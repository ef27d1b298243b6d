// Turns (operator, constructor arguments, workload, seed) into the tensors of a real call: inputs, weights, states,
// attention metadata. Tests, benchmarks and the validator make their data here and nowhere else.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/memory.h"
#include "ops/registry.h"

namespace fk {

// The metadata of a batch, with the memory it points into. Block tables and state slots are scattered by the seed.
class BatchMetadata {
 public:
  BatchMetadata(const Workload& workload, uint64_t seed);
  // With given blocks for each sequence, enough for its tokens.
  BatchMetadata(const Workload& workload, const std::vector<std::vector<int32_t>>& tables, uint64_t seed);
  BatchMetadata(const BatchMetadata&) = delete;
  BatchMetadata& operator=(const BatchMetadata&) = delete;

  const AttentionMetadata& attention() const { return metadata_; }
  View positions() const { return positions_; }
  View logits_indices() const { return logits_indices_; }
  // Over all sequences, decoding or not, as operators that take them as arguments see them.
  const SequenceGroup& all() const { return all_; }

 private:
  void lay_out(const Workload& workload, std::span<const std::vector<int32_t>> tables, uint64_t seed);

  std::vector<Tensor> owned_;
  AttentionMetadata metadata_;
  SequenceGroup all_;
  View positions_;
  View logits_indices_;
};

// Fills `view` as the generator says; the same (seed, name) gives the same values whatever the dtype's width.
void fill(const View& view, const Generator& generator, uint64_t seed, std::string_view name,
          const BatchMetadata& batch);

// The tensors of one call, dense and owned.
struct CallData {
  std::vector<std::optional<Tensor>> given;  // inputs and states, in order
  // For each of `given`, the gap between its rows in the call, in elements. Empty: no gaps.
  std::vector<int64_t> row_gaps = {};
  std::vector<Tensor> params;          // as collect_params lists them
  std::vector<StateSpec> state_specs;  // as collect_states lists them
  std::vector<Tensor> states;          // likewise
  std::shared_ptr<const BatchMetadata> batch;

  int64_t row_gap(size_t i) const { return i < row_gaps.size() ? row_gaps[i] : 0; }
};

// A tensor whose rows (everything but the first dimension) are dense and lie `gap` elements apart, at `data`, and the
// bytes from its first element to its last. Only tensors of two or three dimensions have a gap.
View view_with_gaps(void* data, const TensorSpec& spec, int64_t gap);
size_t bytes_with_gaps(const TensorSpec& spec, int64_t gap);

CallData make_call_data(const Node& root, const Workload& workload, uint64_t seed);
// The same with inputs and metadata the caller has chosen, which must fit the workload.
CallData make_call_data(const Node& root, const Inputs& inputs, const Workload& workload,
                        std::shared_ptr<const BatchMetadata> batch, uint64_t seed);

// The two parts of materialize: weights, which are kept between calls and can be large, and everything else.
std::vector<Tensor> make_params(const Node& root, uint64_t seed);
// The name of a state in messages: "the state 'attn.key_cache'".
std::string state_words(const StateSpec& state);
// The states of a call, for its context.
std::vector<View> state_views(std::span<const Tensor> states);
CallData make_call_inputs(const Node& root, const Workload& workload, uint64_t seed);
// The tensors alone, all zeros but the metadata.
CallData make_call_shapes(const Node& root, const Inputs& inputs, const Workload& workload,
                          std::shared_ptr<const BatchMetadata> batch);
CallData make_call_inputs(const Node& root, const Inputs& inputs, const Workload& workload,
                          std::shared_ptr<const BatchMetadata> batch, uint64_t seed);

}  // namespace fk
