#include "serve/small_endpoints.h"

#include <algorithm>

#include "core/json.h"
#include "serve/api_error.h"
#include "serve/fields.h"

namespace fk {
namespace {

Json described(const ServedModel& model, const std::string& name) {
  return {{"id", name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "fastkernels"},
          {"root", model.root},
          {"parent", nullptr},
          {"max_model_len", model.max_model_len}};
}

}  // namespace

Json models_json(const ServedModel& model) {
  Json data = Json::array();
  for (const std::string& name : model.names) data.push_back(described(model, name));
  return {{"object", "list"}, {"data", std::move(data)}};
}

Json model_json(const ServedModel& model, const std::string& name) {
  check_model_name(model, {{"model", name}});
  return described(model, name);
}

Json tokenize_json(const ServedModel& model, const Json& body) {
  check_model_name(model, body);
  Fields fields(body);
  bool chat = fields.find("messages") != nullptr;
  std::optional<std::string> prompt = fields.text("prompt");
  if (chat == prompt.has_value())
    throw ApiError(400, "Send either 'prompt', a text, or 'messages'.", "prompt", "invalid_value");
  bool special = fields.boolean("add_special_tokens", !chat);
  std::vector<int64_t> tokens = encode_text(model, chat ? chat_text(model, body) : *prompt, special);
  Json answer = {{"count", tokens.size()}, {"max_model_len", model.max_model_len}, {"tokens", tokens}};
  answer["token_strs"] = nullptr;
  if (fields.boolean("return_token_strs", false)) {
    answer["token_strs"] = Json::array();
    for (int64_t token : tokens) answer["token_strs"].push_back(decode_tokens(model, {token}, false));
  }
  return answer;
}

Json detokenize_json(const ServedModel& model, const Json& body) {
  check_model_name(model, body);
  Fields fields(body);
  if (fields.find("tokens") == nullptr) throw ApiError(400, "'tokens' is missing.", "tokens", "missing_field");
  std::vector<int64_t> tokens = fields.token_ids("tokens");
  check_token_ids(model, tokens, "tokens");
  return {{"prompt", decode_tokens(model, tokens, false)}};
}

}  // namespace fk
