// The definition of one step of a linear recurrence (ops/l1/linear_recurrence.h): one token of each sequence.
#pragma once

#include "ops/algebra/definition.h"
#include "ops/l1/linear_recurrence.h"

namespace fk {

// `names` are those of the token inputs, `inputs` what they are.
void define_step(std::span<const ArgSpec> names, std::span<const RecurrenceInput> inputs,
                 const LinearRecurrenceInit& init, Definition& d);

template <class Rule>
void define_step(const LinearRecurrenceInit& init, Definition& d) {
  define_step(Rule::kArgs, Rule::kInputs, init, d);
}

}  // namespace fk
