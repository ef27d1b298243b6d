#include "serve/served_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "core/json.h"
#include "models/unicode.h"
#include "serve/api_error.h"
#include "serve/fields.h"

namespace fk {
namespace {

[[noreturn]] void no_tokenizer(const ServedModel& model) {
  throw ApiError(400, fmt::format("{} has no tokenizer; send token ids instead of text.", model.names.front()));
}

bool is_list_of_objects(const Json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const Json& one) { return one.is_object(); });
}

// Parts of a message as one text: what templates expect.
Json joined_parts(const Json& parts, size_t message) {
  std::string joined;
  for (const Json& part : parts) {
    bool text = part.is_object() && part.contains("type") && part["type"] == "text" && part.contains("text") &&
                part["text"].is_string();
    if (!text && !part.is_string())
      throw ApiError(400,
                     fmt::format("Message {} has a part that is no text; this model reads text alone, as {{\"type\": "
                                 "\"text\", \"text\": \"Hi\"}}.",
                                 message + 1),
                     "messages", "invalid_value");
    if (!joined.empty()) joined += "\n";
    joined += text ? part["text"].get<std::string>() : part.get<std::string>();
  }
  return joined;
}

// Clients send the arguments of a tool call as JSON text; templates expect the object.
void open_arguments(Json& call) {
  if (!call.contains("function") || !call["function"].is_object()) return;
  Json& function = call["function"];
  if (!function.contains("arguments") || !function["arguments"].is_string()) return;
  try {
    Json arguments = parse_json(function["arguments"].get<std::string>(), "arguments");
    if (arguments.is_object()) function["arguments"] = std::move(arguments);
  } catch (const Error&) {
    // It stays a text; the template decides.
  }
}

Json read_messages(const Json& body) {
  const Json* given = Fields(body).find("messages");
  if (given == nullptr) throw ApiError(400, "'messages' is missing.", "messages", "missing_field");
  if (!given->is_array() || given->empty())
    throw ApiError(400, "'messages' must be a list with at least one message.", "messages", "invalid_value");
  Json messages = *given;
  for (size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    bool good = message.is_object() && message.contains("role") && message["role"].is_string();
    if (good && message.contains("content")) {
      Json& content = message["content"];
      if (content.is_array()) content = joined_parts(content, i);
      good = content.is_string() || content.is_null();
    }
    if (!good)
      throw ApiError(400,
                     fmt::format("Message {} must be an object with a role and a content, as {{\"role\": \"user\", "
                                 "\"content\": \"Hi\"}}.",
                                 i + 1),
                     "messages", "invalid_value");
    if (!message.contains("tool_calls") || message["tool_calls"].is_null()) continue;
    Json& calls = message["tool_calls"];
    if (!is_list_of_objects(calls))
      throw ApiError(400, fmt::format("The tool_calls of message {} must be a list of objects.", i + 1), "messages",
                     "invalid_value");
    for (Json& call : calls) open_arguments(call);
  }
  return messages;
}

// With dummy weights any text will do.
std::string plain_chat(const Json& messages) {
  std::string text;
  for (const Json& message : messages) {
    text += message["role"].get<std::string>() + ": ";
    if (message.contains("content") && message["content"].is_string()) text += message["content"].get<std::string>();
    text += "\n";
  }
  return text + "assistant: ";
}

}  // namespace

void check_model_name(const ServedModel& model, const Json& body) {
  std::optional<std::string> name = Fields(body).text("model");
  if (name && std::find(model.names.begin(), model.names.end(), *name) == model.names.end())
    throw ApiError(
        404, fmt::format("The model '{}' does not exist; this server has '{}'.", *name, fmt::join(model.names, "', '")),
        "model", "model_not_found");
}

std::vector<int64_t> encode_text(const ServedModel& model, std::string_view text, bool add_special_tokens) {
  if (model.tokenizer) {
    std::vector<int32_t> ids = model.tokenizer->encode(text, add_special_tokens);
    return {ids.begin(), ids.end()};
  }
  if (!model.bytes_are_tokens) no_tokenizer(model);
  std::vector<int64_t> ids;
  ids.reserve(text.size());
  for (unsigned char byte : text) ids.push_back(byte % model.vocab_size);
  return ids;
}

std::string decode_tokens(const ServedModel& model, const std::vector<int64_t>& tokens, bool skip_special_tokens) {
  if (model.tokenizer) {
    std::vector<int32_t> ids(tokens.begin(), tokens.end());
    return model.tokenizer->decode(ids, skip_special_tokens);
  }
  if (!model.bytes_are_tokens) no_tokenizer(model);
  std::string bytes;
  for (int64_t token : tokens) {
    if (token < 256)
      bytes += static_cast<char>(token);
    else
      bytes += fmt::format("<{}>", token);
  }
  return unicode::repair_utf8(bytes);
}

void check_token_ids(const ServedModel& model, const std::vector<int64_t>& ids, std::string_view name) {
  for (int64_t id : ids)
    if (id >= model.vocab_size)
      throw ApiError(
          400, fmt::format("'{}' has the token id {}, but the vocabulary has {} ids.", name, id, model.vocab_size),
          std::string(name), "invalid_value");
}

const Json* callable_tools(const Json& body) {
  Fields fields(body);
  const Json* tools = fields.find("tools");
  if (tools != nullptr && !is_list_of_objects(*tools))
    throw ApiError(400, "'tools' must be a list of objects.", "tools", "invalid_value");
  if (const Json* choice = fields.find("tool_choice")) {
    if (*choice == "none")
      tools = nullptr;
    else if (*choice != "auto")
      throw ApiError(400, "'tool_choice' must be \"auto\" or \"none\": this server cannot force a call.", "tool_choice",
                     "unsupported_value");
  }
  return tools == nullptr || tools->empty() ? nullptr : tools;
}

std::string chat_text(const ServedModel& model, const Json& body) {
  Json messages = read_messages(body);
  Fields fields(body);
  fields.refuse("chat_template", "the template is that of the model, or of --chat-template.");
  const Json* tools = callable_tools(body);
  const Json* arguments = fields.find("chat_template_kwargs");
  if (arguments != nullptr && !arguments->is_object())
    throw ApiError(400, "'chat_template_kwargs' must be an object.", "chat_template_kwargs", "invalid_value");
  bool add_generation_prompt = fields.boolean("add_generation_prompt", true);
  if (!model.chat_template) {
    if (model.bytes_are_tokens) return plain_chat(messages);
    throw ApiError(400, fmt::format("{} has no chat template; start the server with --chat-template FILE, or use "
                                    "/v1/completions.",
                                    model.names.front()));
  }
  try {
    return model.chat_template->render(
        {.messages = &messages, .tools = tools, .arguments = arguments, .add_generation_prompt = add_generation_prompt},
        std::time(nullptr));
  } catch (const Error& e) {
    throw ApiError(400, e.what(), "messages");
  }
}

}  // namespace fk
