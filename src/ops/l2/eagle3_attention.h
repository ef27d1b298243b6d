// Eagle3Attention: the attention block of an EAGLE-3 head. Queries, keys and values are projected from two vectors of
// each token, one beside the other: its embedding, and a hidden state of the model whose tokens the head guesses.
#pragma once

#include "ops/l2/attention_block.h"

namespace fk {

class Eagle3Attention : public AttentionBlock {
 public:
  static constexpr std::string_view kName = "eagle3_attention";
  static constexpr std::string_view kClass = "Eagle3Attention";

  // positions i64 [T], hidden_states [T, 2 * D] -> out [T, D].
  using AttentionBlock::AttentionBlock;

  static int64_t input_size(const Init& init) { return 2 * init.hidden_size; }
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<Eagle3Attention>> cases();
};

}  // namespace fk
