// LlamaMLP: the gated feed-forward block with SiLU, of Llama, Mistral and Qwen 3.
#pragma once

#include "ops/l2/mlp_block.h"

namespace fk {

class LlamaMLP : public MlpBlock {
 public:
  static constexpr std::string_view kName = "llama_mlp";
  static constexpr std::string_view kClass = "LlamaMLP";

  using MlpBlock::MlpBlock;

  static std::vector<Case<LlamaMLP>> cases();
};

}  // namespace fk
