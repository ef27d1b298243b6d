#include "models/chat_template.h"

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "core/error.h"
#include "core/input_file.h"
#include "core/json.h"
#include "models/in_quotes.h"
#include "models/jinja/json.h"
#include "models/jinja/template.h"

namespace fk {
namespace fs = std::filesystem;
namespace {

constexpr const char* kSpecialTokens[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};

std::optional<std::string> existing(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) ? std::optional(path.string()) : std::nullopt;
}

// A template as text, or several of them as [{"name": ..., "template": ...}].
std::map<std::string, std::string> named_templates(const Json& json, const std::string& what) {
  if (json.is_string()) return {{"default", json.get<std::string>()}};
  std::map<std::string, std::string> all;
  if (json.is_array())
    for (const Json& one : json) {
      bool whole = one.is_object() && one.contains("name") && one["name"].is_string() && one.contains("template") &&
                   one["template"].is_string();
      if (whole) all.emplace(one["name"].get<std::string>(), one["template"].get<std::string>());
    }
  if (all.empty() || all.size() != json.size())
    throw Error("{}: chat_template must be a text, or a list of objects with name and template.", what);
  return all;
}

// A token is a text or an object that holds it as `content`.
std::optional<std::string> token_text(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (json.is_object() && json.contains("content") && json["content"].is_string())
    return json["content"].get<std::string>();
  return std::nullopt;
}

void check_messages(const Json& messages) {
  if (!messages.is_array() || messages.empty())
    throw Error(
        "The messages must be a list with at least one object, as [{\"role\": \"user\", \"content\": \"Hi\"}].");
  for (size_t i = 0; i < messages.size(); ++i)
    if (!messages[i].is_object() || !messages[i].contains("role") || !messages[i]["role"].is_string())
      throw Error("Message {} must be an object with a role, as {{\"role\": \"user\", \"content\": \"Hi\"}}.", i + 1);
}

}  // namespace

struct ChatTemplate::Parsed {
  const jinja::Template& of(const std::string& name, const std::string& source, const std::string& what) {
    std::lock_guard lock(mutex);
    auto found = templates.find(name);
    if (found == templates.end()) found = templates.emplace(name, jinja::Template(source, what)).first;
    return found->second;
  }

  std::mutex mutex;
  std::map<std::string, jinja::Template> templates;  // by name; places stay
};

ChatTemplate::ChatTemplate() : parsed_(std::make_shared<Parsed>()) {}

std::optional<ChatTemplate> ChatTemplate::of_folder(const std::string& folder) {
  ChatTemplate found;
  for (const char* name : {"special_tokens_map.json", "tokenizer_config.json"}) {
    std::optional<std::string> path = existing(fs::path(folder) / name);
    if (!path) continue;
    Json json = parse_json_file(*path);
    if (!json.is_object()) throw Error("{} must be an object.", in_quotes(*path));
    for (const char* token : kSpecialTokens)
      if (json.contains(token))
        if (std::optional<std::string> text = token_text(json[token])) {
          std::erase_if(found.special_tokens_, [&](const auto& t) { return t.first == token; });
          found.special_tokens_.emplace_back(token, *text);
        }
    if (json.contains("chat_template") && !json["chat_template"].is_null()) {
      found.what_ = fmt::format("The chat template in {}", in_quotes(*path));
      found.templates_ = named_templates(json["chat_template"], in_quotes(*path));
    }
  }
  if (std::optional<std::string> path = existing(fs::path(folder) / "chat_template.jinja"))
    return of_file(*path, found);
  if (std::optional<std::string> path = existing(fs::path(folder) / "chat_template.json");
      path && found.templates_.empty()) {
    Json json = parse_json_file(*path);
    if (!json.is_object() || !json.contains("chat_template"))
      throw Error("{} must be an object with chat_template.", in_quotes(*path));
    found.what_ = fmt::format("The chat template in {}", in_quotes(*path));
    found.templates_ = named_templates(json["chat_template"], in_quotes(*path));
  }
  if (found.templates_.empty()) return std::nullopt;
  return found;
}

std::optional<ChatTemplate> ChatTemplate::of_gguf(const GgufFile& file) {
  ChatTemplate found;
  found.what_ = fmt::format("The chat template in {}", in_quotes(file.path()));
  if (auto text = file.string("tokenizer.chat_template")) found.templates_.emplace("default", *text);
  for (std::string_view name : file.strings("tokenizer.chat_templates").value_or(std::vector<std::string_view>{}))
    if (auto text = file.string(fmt::format("tokenizer.chat_template.{}", name)))
      found.templates_.emplace(std::string(name), *text);
  if (found.templates_.empty()) return std::nullopt;
  std::vector<std::string_view> tokens =
      file.strings("tokenizer.ggml.tokens").value_or(std::vector<std::string_view>{});
  constexpr std::pair<const char*, const char*> kIds[] = {
      {"bos_token", "bos"},     {"eos_token", "eos"}, {"unk_token", "unknown"}, {"sep_token", "seperator"},
      {"pad_token", "padding"}, {"cls_token", "cls"}, {"mask_token", "mask"}};  // "seperator" is GGUF's own spelling
  for (auto [token, name] : kIds)
    if (auto id = file.integer(fmt::format("tokenizer.ggml.{}_token_id", name));
        id && *id >= 0 && static_cast<size_t>(*id) < tokens.size())
      found.special_tokens_.emplace_back(token, tokens[static_cast<size_t>(*id)]);
  return found;
}

ChatTemplate ChatTemplate::of_file(const std::string& path, const std::optional<ChatTemplate>& model) {
  ChatTemplate found;
  if (model) found.special_tokens_ = model->special_tokens_;
  found.what_ = fmt::format("The chat template {}", in_quotes(path));
  found.templates_ = {{"default", read_file(path, in_quotes(path))}};
  return found;
}

void ChatTemplate::check() const {
  for (const auto& [name, source] : templates_) parsed_->of(name, source, what_);
}

bool ChatTemplate::mentions(std::string_view text) const {
  return std::any_of(templates_.begin(), templates_.end(),
                     [&](const auto& one) { return one.second.find(text) != std::string::npos; });
}

std::string ChatTemplate::render(const Chat& chat, std::time_t now) const {
  check_messages(*chat.messages);
  if (chat.tools != nullptr && !chat.tools->is_array()) throw Error("The tools must be a list of objects.");
  if (chat.arguments != nullptr && !chat.arguments->is_object())
    throw Error("The arguments of the chat template must be an object, as {\"enable_thinking\": false}.");
  bool has_tools = chat.tools != nullptr && templates_.contains("tool_use");
  auto source = templates_.find(has_tools ? "tool_use" : "default");
  if (source == templates_.end())
    throw Error("{} has no template named default; give one with --chat-template.", what_);
  jinja::Dict names;
  for (const auto& [token, text] : special_tokens_) names.set(token, text);
  names.set("messages", jinja::from_json(*chat.messages));
  names.set("tools", chat.tools == nullptr ? jinja::Value::none() : jinja::from_json(*chat.tools));
  names.set("documents", jinja::Value::none());
  names.set("add_generation_prompt", chat.add_generation_prompt);
  if (chat.arguments != nullptr)
    for (const auto& [name, value] : chat.arguments->items()) names.set(name, jinja::from_json(value));
  return parsed_->of(source->first, source->second, what_).render(names, now);
}

}  // namespace fk
