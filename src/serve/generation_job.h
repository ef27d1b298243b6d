// GenerationJob: what a request to /v1/completions or /v1/chat/completions asks for, checked and tokenized.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/json_fwd.h"
#include "engine/engine.h"
#include "serve/served_model.h"

namespace fk {

class AnswerFormat;

struct GenerationJob {
  std::string id;
  std::time_t created = 0;
  std::string model;
  const AnswerFormat* format = nullptr;

  std::vector<std::vector<int64_t>> prompts;
  std::vector<std::string> echo;  // texts of the prompts, where the answer begins with them
  int64_t n = 1;                  // choices of each prompt
  Request request;                // of every choice, without prompt and seed
  std::optional<uint64_t> seed;   // none: a random one
  bool stream = false, include_usage = false;
  ToolCallForm tool_calls = ToolCallForm::kNone;  // what is read as calls of tools
  bool echo_logprobs = false;                     // of the prompt too, where the answer begins with it
  std::optional<int> prompt_logprobs;             // vLLM's, with that many of the most likely tokens
  bool tokens_as_ids = false;                     // in log-probabilities: "token_id:17" in place of text

  size_t choices() const { return prompts.size() * static_cast<size_t>(n); }
};

// What the two requests have in common.
struct JobLimits {
  int64_t max_choices = 0;                           // of one request
  std::optional<std::chrono::milliseconds> timeout;  // of one request
};

// Reads sampling, stop conditions, n, stream and seed into the job. Throws ApiError.
void read_common_fields(GenerationJob& job, const ServedModel& model, const Json& body, const JobLimits& limits);
// max_tokens of the request: `asked`, or `otherwise`, or whatever room the longest prompt leaves. Throws ApiError where
// that is more than the context has.
void set_max_tokens(GenerationJob& job, const ServedModel& model, std::optional<int64_t> asked,
                    std::optional<int64_t> otherwise);

// A bare id, as "3f2a...": 32 digits.
std::string random_id();

// Pure: they may run on any thread. Throw ApiError.
GenerationJob read_completion(const ServedModel& model, const Json& body, const JobLimits& limits);
GenerationJob read_chat(const ServedModel& model, const Json& body, const JobLimits& limits);

}  // namespace fk
