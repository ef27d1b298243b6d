// The rules of linear attention and delta rules, by the token inputs that they take; names as in
// flash-linear-attention.
#pragma once

#include "ops/l1/linear_recurrence.h"

namespace fk {

// Gated linear attention: every element of a key decays for itself.
struct GLARule {
  static constexpr std::array kArgs{in("q"), in("k"), in("v"), in("g")};
  static constexpr std::array kInputs{RecurrenceInput::kQuery, RecurrenceInput::kKey, RecurrenceInput::kValue,
                                      RecurrenceInput::kDecayPerElement};
};

// Retention: the decay of a head is a constant.
struct RetentionRule {
  static constexpr std::array kArgs{in("q"), in("k"), in("v")};
  static constexpr std::array kInputs{RecurrenceInput::kQuery, RecurrenceInput::kKey, RecurrenceInput::kValue};
};

// The gated delta rule: one decay a head.
struct GatedDeltaRule {
  static constexpr std::array kArgs{in("q"), in("k"), in("v"), in("g"), in("beta")};
  static constexpr std::array kInputs{RecurrenceInput::kQuery, RecurrenceInput::kUnitKey, RecurrenceInput::kValue,
                                      RecurrenceInput::kDecayPerHead, RecurrenceInput::kBeta};
};

// Kimi delta attention: the same with a decay for every element of a key.
struct KDARule {
  static constexpr std::array kArgs{in("q"), in("k"), in("v"), in("g"), in("beta")};
  static constexpr std::array kInputs{RecurrenceInput::kQuery, RecurrenceInput::kUnitKey, RecurrenceInput::kValue,
                                      RecurrenceInput::kDecayPerElement, RecurrenceInput::kBeta};
};

// RWKV 7: w are logarithms of decays; what the state holds for a is added to it for b.
struct RWKV7Rule {
  static constexpr std::array kArgs{in("r"), in("w"), in("k"), in("v"), in("a"), in("b")};
  static constexpr std::array kInputs{RecurrenceInput::kQuery,   RecurrenceInput::kDecayPerElement,
                                      RecurrenceInput::kKey,     RecurrenceInput::kValue,
                                      RecurrenceInput::kRemoved, RecurrenceInput::kAdded};
};

}  // namespace fk
