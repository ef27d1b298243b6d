#include "ops/l1/fused_recurrent_rwkv7.h"

#include "ops/l1/recurrence_definition.h"
#include "ops/register.h"

namespace fk {

std::vector<Case<FusedRecurrentRWKV7>> FusedRecurrentRWKV7::cases() { return common_cases<FusedRecurrentRWKV7>(); }

namespace {
using FusedRecurrentRWKV7Oracle = RunsRecurrence<FusedRecurrentRWKV7, RecurrenceOracle>;
FK_OPERATOR(FusedRecurrentRWKV7, FusedRecurrentRWKV7Oracle);

FK_DEFINITION(FusedRecurrentRWKV7, define_step<RWKV7Rule>);
}  // namespace
}  // namespace fk
