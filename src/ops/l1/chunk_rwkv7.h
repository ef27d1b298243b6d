// ChunkRWKV7: the recurrence of RWKV 7 over the tokens of each sequence, on from its state.
#pragma once

#include "ops/l1/recurrence_rules.h"

namespace fk {

class ChunkRWKV7 : public LinearRecurrenceOperator<RWKV7Rule, true> {
 public:
  static constexpr std::string_view kName = "chunk_rwkv7";
  static constexpr std::string_view kClass = "ChunkRWKV7";

  using LinearRecurrenceOperator::LinearRecurrenceOperator;

  static std::vector<Case<ChunkRWKV7>> cases();
};

}  // namespace fk
