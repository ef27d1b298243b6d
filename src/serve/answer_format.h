// AnswerFormat: how a choice is written in JSON; /v1/completions and /v1/chat/completions differ only in this.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_fwd.h"
#include "engine/request.h"
#include "serve/served_model.h"
#include "serve/tool_calls.h"

namespace fk {

// A choice, or what a step adds to it.
struct ChoicePart {
  size_t index = 0;
  std::string text = {};
  std::vector<DrawnLogprobs> logprobs = {};
  // Of an answer that begins with the prompt: its tokens, and the log-probabilities of all but the first.
  std::span<const int64_t> prompt = {};
  std::span<const DrawnLogprobs> prompt_logprobs = {};
  FinishReason finish = FinishReason::kNone;
  std::string stop_reason = {};
  size_t text_offset = 0;  // where the text of the log-probabilities begins
  std::vector<ToolCall> calls = {};
  size_t first_call = 0;    // calls of the choice before these
  bool has_called = false;  // these or any before
};

class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  virtual std::string_view object() const = 0;        // "text_completion"
  virtual std::string_view chunk_object() const = 0;  // of an event of a stream
  virtual Json choice(const ChoicePart& part, const Json& logprobs) const = 0;
  virtual Json chunk_choice(const ChoicePart& part, const Json& logprobs) const = 0;
  // What a stream begins each choice with; null: nothing.
  virtual Json first_choice(size_t index) const = 0;
  // With `top` of the most likely tokens.
  virtual Json logprobs(const ServedModel& model, const ChoicePart& part, int top, bool tokens_as_ids) const = 0;
  // Where vLLM's prompt_logprobs are written: in the choice, or beside the choices.
  virtual bool prompt_logprobs_in_choice() const = 0;
};

extern const AnswerFormat& kCompletionFormat;
extern const AnswerFormat& kChatFormat;

// "stop" or "length", and "abort", "timeout" or "error" in logs; empty while more comes.
std::string_view finish_word(FinishReason finish);
// "stop" or "length"; null while more comes.
Json finish_reason_json(FinishReason finish);
// The text of a stop string, or the number of a stop token, or null.
Json stop_reason_json(const std::string& stop_reason);
// A token's text, or "token_id:17".
std::string token_name(const ServedModel& model, int64_t token, bool as_id);
// JSON has no infinity: the least is -9999, as in vLLM.
double finite_logprob(float logprob);
// In characters, as the offsets of log-probabilities are.
size_t text_length(std::string_view text);
// As vLLM writes them: for every token of the prompt null or {"17": {"logprob": -0.5, "rank": 1, "decoded_token":
// "a"}}.
Json prompt_logprobs_json(const ServedModel& model, std::span<const DrawnLogprobs> logprobs, int top);

}  // namespace fk
