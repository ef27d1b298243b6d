#include "engine/finite_logits.h"

#include <bit>

#include "core/error.h"
#include "models/finite.h"

namespace fk {
namespace {

[[noreturn]] void refuse(const Model& model, std::string_view what) {
  if (auto tensor = model.weights.first_not_finite())
    throw Error(
        "{} gives NaN: its weight '{}' holds a NaN or an infinity as {}; load it in another --dtype, or get the "
        "checkpoint again.",
        model.name, *tensor, dtype_name(model.config.facts.dtype));
  throw Error(
      "{} gives NaN: its {} are NaN or infinite although all weights are finite; try --dtype f32, or without "
      "candidates.",
      model.name, what);
}

}  // namespace

void require_finite_logits(const Model& model, const View& logits) { require_finite(model, logits, "logits"); }

void require_finite(const Model& model, const View& values, std::string_view what) {
  if (!all_finite(values)) refuse(model, what);
}

void require_finite_draw(const Model& model, const View& logits, int64_t row, int64_t token) {
  if (model.device != kCpu) return;
  const auto* values = static_cast<const float*>(logits.data()) + row * logits.size(1);
  if ((std::bit_cast<uint32_t>(values[token]) & 0x7f800000u) == 0x7f800000u) refuse(model, "logits");
}

}  // namespace fk
