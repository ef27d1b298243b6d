// The flags of a conversation, and the prompt that the model's chat template makes of it.
#pragma once

#include <string>

#include "cli/options.h"
#include "models/resolve.h"

namespace fk {

struct ChatOptions {
  bool chat = false;
  std::string system;
  std::string messages;  // path of a file
  std::string tools;     // path of a file
  std::string chat_template;
  std::string arguments;  // JSON

  // Whether any of the flags asks for a conversation.
  bool wanted() const { return chat || !messages.empty(); }
};

void add_chat_options(FlagSet& flags, ChatOptions& options);

// Flags without --chat that would be ignored. Throws UsageError.
void check_chat_options(const ChatOptions& options, bool has_prompt, bool has_ids);

// `prompt` is the user's message, after those of --messages.
std::string chat_prompt(const ChatOptions& options, const std::string& prompt, const ModelSource& source);

}  // namespace fk
