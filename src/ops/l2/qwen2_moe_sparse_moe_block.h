// Qwen2MoeSparseMoeBlock: the experts of Qwen 2 MoE, with a shared one that has a gate of its own.
#pragma once

#include "ops/l2/sparse_moe_block.h"

namespace fk {

class Qwen2MoeSparseMoeBlock : public SparseMoeBlock {
 public:
  static constexpr std::string_view kName = "qwen2_moe_sparse_moe_block";
  static constexpr std::string_view kClass = "Qwen2MoeSparseMoeBlock";

  using SparseMoeBlock::SparseMoeBlock;

  static std::vector<Case<Qwen2MoeSparseMoeBlock>> cases();
};

}  // namespace fk
