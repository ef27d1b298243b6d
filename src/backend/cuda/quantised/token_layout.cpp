#include "backend/cuda/quantised/token_layout.h"

#include <string>

#include "ops/formats/scaled_format.h"

namespace fk::cuda {

TokenCodes token_codes_of(std::string_view format, int64_t columns) {
  if (format == "fp8_tensor" || format == "fp8_channel") return TokenCodes::kFp8;
  if (!format.starts_with("int4_")) return TokenCodes::kNone;
  // As in int4.cu: a segment has one scale.
  const int64_t group = scaled_format(std::string(format)).code_group(0);
  return group == 0 || group == columns || group % 128 == 0 ? TokenCodes::kInt4 : TokenCodes::kNone;
}

}  // namespace fk::cuda
