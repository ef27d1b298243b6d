// Qwen3MoeSparseMoeBlock: the experts of Qwen 3 MoE.
#pragma once

#include "ops/l2/sparse_moe_block.h"

namespace fk {

class Qwen3MoeSparseMoeBlock : public SparseMoeBlock {
 public:
  static constexpr std::string_view kName = "qwen3_moe_sparse_moe_block";
  static constexpr std::string_view kClass = "Qwen3MoeSparseMoeBlock";

  using SparseMoeBlock::SparseMoeBlock;

  static std::vector<Case<Qwen3MoeSparseMoeBlock>> cases();
};

}  // namespace fk
