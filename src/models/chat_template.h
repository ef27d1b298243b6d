// ChatTemplate: turns the messages of a conversation into the text a model was trained on, as transformers'
// apply_chat_template does.
#pragma once

#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json_fwd.h"
#include "models/gguf.h"

namespace fk {

// A conversation, in the form of OpenAI's API.
struct Chat {
  const Json* messages;             // a list of objects with a role
  const Json* tools = nullptr;      // a list of objects; null: none
  const Json* arguments = nullptr;  // an object: more names for the template, as {"enable_thinking": false}
  bool add_generation_prompt = true;
};

class ChatTemplate {
 public:
  // The template of a checkpoint's folder or a GGUF file; none where there is none. Throws Error where a file is
  // broken.
  static std::optional<ChatTemplate> of_folder(const std::string& folder);
  static std::optional<ChatTemplate> of_gguf(const GgufFile& file);

  // The same special tokens, with the template of a file in place of the model's own.
  static ChatTemplate of_file(const std::string& path, const std::optional<ChatTemplate>& model);

  // Throws Error that says what is wrong with the conversation, or what the template does not support, and where. From
  // any thread: a template is read when it is first used, and once.
  std::string render(const Chat& chat, std::time_t now) const;

  // Reads all templates now. Throws Error where one is broken or has what is not supported, and where.
  void check() const;

  // Whether any of the templates has this text.
  bool mentions(std::string_view text) const;

 private:
  struct Parsed;

  ChatTemplate();

  std::shared_ptr<Parsed> parsed_;                // of copies too
  std::string what_;                              // where the templates are from, for errors
  std::map<std::string, std::string> templates_;  // by name; most models have "default" only
  std::vector<std::pair<std::string, std::string>> special_tokens_;
};

}  // namespace fk
