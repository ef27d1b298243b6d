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

size_t text_length(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

Json prompt_logprobs_json(const ServedModel& model, std::span<const DrawnLogprobs> logprobs, int top) {
  Json all = Json::array({nullptr});  // nothing comes before the first token
  for (const DrawnLogprobs& one : logprobs) {
    Json entry = Json::object();
    auto add = [&](const TokenLogprob& token, int64_t rank) {
      entry.emplace(std::to_string(token.token), Json{{"logprob", finite_logprob(token.logprob)},
                                                      {"rank", rank},
                                                      {"decoded_token", token_name(model, token.token, false)}});
    };
    add(one.drawn, one.rank);
    for (size_t i = 0; i < std::min(one.top.size(), static_cast<size_t>(top)); ++i)
      add(one.top[i], static_cast<int64_t>(i) + 1);
    all.push_back(std::move(entry));
  }
  return all;
}

double finite_logprob(float logprob) {
  constexpr double kLeast = -9999;
  return std::isnan(logprob) ? kLeast : std::max(kLeast, std::min(static_cast<double>(logprob), 0.0));
}

}  // namespace fk
