// ServedModel: what the endpoints know of the model behind them.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_fwd.h"
#include "engine/engine.h"
#include "models/chat_template.h"
#include "models/tokenizer.h"
#include "serve/tool_calls.h"

namespace fk {

struct ServedModel {
  std::vector<std::string> names;  // the first one is in answers
  std::string root;                // what --model was
  std::optional<Tokenizer> tokenizer = {};
  // A model without a tokenizer, with dummy weights: the bytes of a text are its tokens.
  bool bytes_are_tokens = false;
  std::optional<ChatTemplate> chat_template = {};
  ToolCallForm tool_calls = ToolCallForm::kNone;  // how the model writes calls of tools
  std::vector<int64_t> end_tokens = {};           // any of them ends an output
  SamplingParams defaults = {.temperature = 1};   // where a request does not say
  int64_t max_model_len = 0;
  int64_t vocab_size = 0;
  std::time_t created = 0;
};

// Throws ApiError 404 where `model` of the request is another one. Without one this model is meant.
void check_model_name(const ServedModel& model, const Json& body);

// Throw ApiError where there is no tokenizer.
std::vector<int64_t> encode_text(const ServedModel& model, std::string_view text, bool add_special_tokens);
std::string decode_tokens(const ServedModel& model, const std::vector<int64_t>& tokens, bool skip_special_tokens);

// Throws ApiError with the first id that the vocabulary does not have.
void check_token_ids(const ServedModel& model, const std::vector<int64_t>& ids, std::string_view name);

// The prompt of a conversation: messages, tools, chat_template_kwargs and add_generation_prompt of the body. Throws
// ApiError.
std::string chat_text(const ServedModel& model, const Json& body);
// The tools of the body that the model may call; null: none.
const Json* callable_tools(const Json& body);

}  // namespace fk
