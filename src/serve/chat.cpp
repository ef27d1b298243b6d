// /v1/chat/completions: reading a request, and how a choice is written.
#include <fmt/format.h>

#include "core/json.h"
#include "serve/answer_format.h"
#include "serve/api_error.h"
#include "serve/fields.h"
#include "serve/generation_job.h"

namespace fk {
namespace {

Json bytes_of(const std::string& text) {
  Json bytes = Json::array();
  for (unsigned char byte : text) bytes.push_back(static_cast<int>(byte));
  return bytes;
}

class ChatFormat final : public AnswerFormat {
 public:
  std::string_view object() const override { return "chat.completion"; }
  std::string_view chunk_object() const override { return "chat.completion.chunk"; }

  Json choice(const ChoicePart& part, const Json& logprobs) const override {
    Json message = {{"role", "assistant"}, {"content", part.text}, {"refusal", nullptr}};
    if (!part.calls.empty()) {
      if (part.text.empty()) message["content"] = nullptr;
      message["tool_calls"] = calls_json(part, false);
    }
    return with_end({{"index", part.index}, {"message", std::move(message)}}, part, logprobs);
  }
  Json chunk_choice(const ChoicePart& part, const Json& logprobs) const override {
    Json delta = Json::object();
    if (!part.text.empty()) delta["content"] = part.text;
    if (!part.calls.empty()) delta["tool_calls"] = calls_json(part, true);
    return with_end({{"index", part.index}, {"delta", std::move(delta)}}, part, logprobs);
  }
  Json first_choice(size_t index) const override {
    return with_end({{"index", index}, {"delta", {{"role", "assistant"}, {"content", ""}}}}, {}, nullptr);
  }

  Json logprobs(const ServedModel& model, const ChoicePart& part, int, bool tokens_as_ids) const override {
    auto entry = [&](const TokenLogprob& one) {
      std::string name = token_name(model, one.token, tokens_as_ids);
      return Json{{"token", name}, {"logprob", finite_logprob(one.logprob)}, {"bytes", bytes_of(name)}};
    };
    Json content = Json::array();
    for (const DrawnLogprobs& drawn : part.logprobs) {
      Json one = entry(drawn.drawn);
      one["top_logprobs"] = Json::array();
      for (const TokenLogprob& top : drawn.top) one["top_logprobs"].push_back(entry(top));
      content.push_back(std::move(one));
    }
    return {{"content", content}, {"refusal", nullptr}};
  }
  bool prompt_logprobs_in_choice() const override { return false; }

 private:
  static Json calls_json(const ChoicePart& part, bool numbered) {
    Json calls = Json::array();
    for (size_t i = 0; i < part.calls.size(); ++i) {
      Json call = Json::object();
      if (numbered) call["index"] = part.first_call + i;
      call["id"] = "call_" + random_id().substr(0, 24);
      call["type"] = "function";
      call["function"] = {{"name", part.calls[i].name}, {"arguments", part.calls[i].arguments}};
      calls.push_back(std::move(call));
    }
    return calls;
  }

  static Json with_end(Json choice, const ChoicePart& part, const Json& logprobs) {
    choice["logprobs"] = logprobs;
    choice["finish_reason"] =
        part.finish == FinishReason::kStop && part.has_called ? Json("tool_calls") : finish_reason_json(part.finish);
    choice["stop_reason"] = stop_reason_json(part.stop_reason);
    return choice;
  }
};

const ChatFormat g_chat_format;

}  // namespace

const AnswerFormat& kChatFormat = g_chat_format;

GenerationJob read_chat(const ServedModel& model, const Json& body, const JobLimits& limits) {
  Fields fields(body);
  GenerationJob job;
  job.id = "chatcmpl-" + random_id();
  job.format = &kChatFormat;
  job.prompts.resize(1);
  read_common_fields(job, model, body, limits);
  fields.refuse("functions", "describe functions in 'tools'.");
  fields.refuse("audio", "answers are text.");
  fields.refuse("echo", "only /v1/completions repeats its prompt.");
  fields.refuse("continue_final_message", "an answer is always a new message.");
  bool special = fields.boolean("add_special_tokens", false);
  job.prompts[0] = encode_text(model, chat_text(model, body), special);
  if (callable_tools(body) != nullptr) job.tool_calls = model.tool_calls;

  bool logprobs = fields.boolean("logprobs", false);
  std::optional<int64_t> top = fields.whole("top_logprobs", 0, 20);
  if (top.value_or(0) > 0 && !logprobs)
    throw ApiError(400, "'top_logprobs' needs 'logprobs' to be true.", "top_logprobs", "invalid_value");
  if (logprobs) job.request.logprobs = static_cast<int>(top.value_or(0));

  std::optional<int64_t> asked = fields.whole("max_completion_tokens", 1, INT64_MAX);
  std::optional<int64_t> older = fields.whole("max_tokens", 1, INT64_MAX);
  set_max_tokens(job, model, asked ? asked : older, std::nullopt);
  return job;
}

}  // namespace fk
