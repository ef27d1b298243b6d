// Attention one query and head at a time: any head size, any float dtype, any strides.
#pragma once

#include <string_view>

#include "backend/cuda/attention/call.h"

namespace fk::cuda {

std::string_view attention_rows_refusal(const AttentionCall& call);
void attention_rows(const AttentionCall& call, void* stream);

}  // namespace fk::cuda
