#include "cli/chat_options.h"

#include <ctime>
#include <iostream>
#include <iterator>

#include "core/error.h"
#include "core/json.h"
#include "models/chat_template.h"

namespace fk {
namespace {

Json read_json(const std::string& path) {
  if (path != "-") return parse_json_file(path);
  return parse_json(std::string(std::istreambuf_iterator<char>(std::cin), {}), "Standard input");
}

ChatTemplate chat_template(const ChatOptions& options, const ModelSource& source) {
  std::optional<ChatTemplate> own;
  if (!source.gguf.empty())
    own = ChatTemplate::of_gguf(GgufFile::open(source.gguf));
  else if (!source.directory.empty())
    own = ChatTemplate::of_folder(source.directory);
  if (!options.chat_template.empty()) return ChatTemplate::of_file(options.chat_template, own);
  if (!own) throw Error("{} has no chat template; give one with --chat-template FILE.", source.name);
  return *own;
}

}  // namespace

void add_chat_options(FlagSet& flags, ChatOptions& options) {
  flags.flag("--chat", options.chat, "The prompt is a user's message: apply the model's chat template");
  flags.option("--system", options.system, "System message in front of it, with --chat");
  flags
      .option("--messages", options.messages, "JSON list of messages of a conversation, in front of --prompt; -: stdin")
      .type_name("FILE");
  flags.option("--tools", options.tools, "JSON list of tools the model may call, with --chat").type_name("FILE");
  flags.option("--chat-template", options.chat_template, "Jinja template to use in place of the model's own")
      .type_name("FILE");
  flags
      .option("--chat-template-kwargs", options.arguments,
              "More names for the template, as '{\"enable_thinking\": false}'")
      .type_name("JSON");
}

void check_chat_options(const ChatOptions& options, bool has_prompt, bool has_ids) {
  if (options.wanted()) {
    if (has_ids) throw UsageError("--prompt-token-ids are no conversation; give a --prompt or --messages.");
    if (!has_prompt && options.messages.empty()) throw UsageError("Give a --prompt or --messages.");
    if (options.messages == "-" && options.tools == "-")
      throw UsageError("Only one of --messages and --tools can be standard input.");
    return;
  }
  const std::pair<const char*, const std::string*> needs_chat[] = {{"--system", &options.system},
                                                                   {"--tools", &options.tools},
                                                                   {"--chat-template", &options.chat_template},
                                                                   {"--chat-template-kwargs", &options.arguments}};
  for (auto [flag, value] : needs_chat)
    if (!value->empty()) throw UsageError("{} has no effect without --chat; add it.", flag);
}

std::string chat_prompt(const ChatOptions& options, const std::string& prompt, const ModelSource& source) {
  Json messages = Json::array(), tools, arguments;
  if (!options.messages.empty()) messages = read_json(options.messages);
  if (!messages.is_array()) throw Error("The messages must be a list of objects.");
  if (!options.system.empty()) messages.insert(messages.begin(), Json{{"role", "system"}, {"content", options.system}});
  if (!prompt.empty()) messages.push_back({{"role", "user"}, {"content", prompt}});
  if (!options.tools.empty()) tools = read_json(options.tools);
  if (!options.arguments.empty()) arguments = parse_json(options.arguments, "--chat-template-kwargs");
  return chat_template(options, source)
      .render({.messages = &messages,
               .tools = options.tools.empty() ? nullptr : &tools,
               .arguments = options.arguments.empty() ? nullptr : &arguments},
              std::time(nullptr));
}

}  // namespace fk
