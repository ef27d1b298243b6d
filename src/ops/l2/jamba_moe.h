// JambaMoE: the experts of Jamba; the weights of a token's experts are those of the softmax over all of them.
#pragma once

#include "ops/l2/sparse_moe_block.h"

namespace fk {

class JambaMoE : public SparseMoeBlock {
 public:
  static constexpr std::string_view kName = "jamba_moe";
  static constexpr std::string_view kClass = "JambaMoE";
  using SparseMoeBlock::SparseMoeBlock;

  static std::vector<Case<JambaMoE>> cases();
};

}  // namespace fk
