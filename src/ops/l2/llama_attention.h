// LlamaAttention: the attention block of Llama and Mistral.
#pragma once

#include "ops/l2/attention_block.h"

namespace fk {

class LlamaAttention : public AttentionBlock {
 public:
  static constexpr std::string_view kName = "llama_attention";
  static constexpr std::string_view kClass = "LlamaAttention";

  using AttentionBlock::AttentionBlock;

  static std::vector<Case<LlamaAttention>> cases();
};

}  // namespace fk
