#include "serve/answer_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/json.h"

namespace fk {

std::string_view finish_word(FinishReason finish) {
  return finish == FinishReason::kCancelled ? "abort" : finish_reason_name(finish);
}

Json finish_reason_json(FinishReason finish) {
  return finish == FinishReason::kNone ? Json() : Json(finish_word(finish));
}

Json stop_reason_json(const std::string& stop_reason) {
  if (stop_reason.empty()) return nullptr;
  bool digits = stop_reason.size() < 10 &&
                std::all_of(stop_reason.begin(), stop_reason.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? Json(std::stoll(stop_reason)) : Json(stop_reason);
}

std::string token_name(const ServedModel& model, int64_t token, bool as_id) {
  if (as_id) return fmt::format("token_id:{}", token);
  if (!model.tokenizer) return fmt::format("<{}>", token);  // as the engine writes it
  return decode_tokens(model, {token}, false);
}

double finite_logprob(float logprob) {
  constexpr double kLeast = -9999;
  return std::isnan(logprob) ? kLeast : std::max(kLeast, std::min(static_cast<double>(logprob), 0.0));
}

}  // namespace fk
