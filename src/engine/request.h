// Request: what a client asks a language model for, and what it gets back as tokens come.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sampling_params.h"

namespace fk {

using RequestId = uint64_t;

struct Request {
  std::vector<int64_t> prompt;
  int64_t max_tokens = 16;  // 0: the request ends when its prompt is computed
  SamplingParams sampling;
  // Any of them ends the output. The token, or the string and what follows it, is not part of the text.
  std::vector<int64_t> stop_tokens;
  std::vector<std::string> stop;
  bool ignore_eos = false;      // stop_tokens do not end the output
  int64_t min_tokens = 0;       // before that many tokens stop_tokens are never drawn, and `stop` does not end it
  std::optional<int> logprobs;  // log-probabilities of the drawn token and of this many of the most likely
  // The same of every token of the prompt but the first. The prefix cache then gives no logits, so the whole prompt is
  // computed.
  std::optional<int> prompt_logprobs;
  bool skip_special_tokens = true;  // in the text
  // The request ends with FinishReason::kTimeout at the first step after it.
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

enum class FinishReason : uint8_t {
  kNone,       // more comes
  kStop,       // a stop token or string
  kLength,     // max_tokens, or the end of the context
  kCancelled,  // by the client
  kTimeout,    // the deadline passed
  kError,      // RequestOutput::error says why
};
std::string_view finish_reason_name(FinishReason reason);  // "stop", "length", "cancelled", "timeout", "error"

struct TokenLogprob {
  int64_t token = 0;
  float logprob = 0;
};
// Of a drawn token, or of one of the prompt.
struct DrawnLogprobs {
  TokenLogprob drawn;
  int64_t rank = 0;               // of a token of the prompt: how many are as likely as it or more; 1: the likeliest
  std::vector<TokenLogprob> top;  // the most likely, best first; of the model, before penalties and temperature
};

// What one step adds to a request. Text lags behind the tokens: it is held back while a stop string or a character may
// still be completed.
struct RequestOutput {
  RequestId id = 0;
  std::vector<int64_t> tokens;
  std::string text;
  std::vector<DrawnLogprobs> logprobs;  // one per token, where asked for
  // Of the prompt's tokens from the second on, where asked for: with the first output.
  std::vector<DrawnLogprobs> prompt_logprobs;
  FinishReason finish = FinishReason::kNone;
  std::string stop_reason;    // the stop string, or the stop token as a number; empty: another reason
  std::string error;          // one sentence, with kError
  int64_t cached_tokens = 0;  // prompt tokens found in the prefix cache; known from the first output on

  void append(RequestOutput next);  // what the next token of the same step adds
};

// Called on the engine's own thread, in order; must not block. The last one has finish != kNone; every submitted
// request gets exactly one such.
using OutputSink = std::function<void(RequestOutput output)>;

}  // namespace fk
