// GptOssAttention: the attention block of gpt-oss, whose heads have attention sinks.
#pragma once

#include "ops/l2/attention_block.h"

namespace fk {

class GptOssAttention : public AttentionBlock {
 public:
  static constexpr std::string_view kName = "gpt_oss_attention";
  static constexpr std::string_view kClass = "GptOssAttention";

  using AttentionBlock::AttentionBlock;

  static Attention::Init core(const Init& init) {
    Attention::Init attention = AttentionBlock::core(init);
    attention.attention_sinks = true;
    return attention;
  }
  static std::vector<Case<GptOssAttention>> cases();
};

}  // namespace fk
