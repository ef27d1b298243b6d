// Calls of tools in what a model writes: found in the text as it comes, in the forms that most models are trained on.
//
//   hermes       <tool_call>{"name": "f", "arguments": {...}}</tool_call>, any number of them (Qwen, Hermes)
//   llama3_json  the whole text is {"name": "f", "parameters": {...}}, several with ; between them (Llama 3)
//
// What only looks like a call stays text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/chat_template.h"

namespace fk {

enum class ToolCallForm : uint8_t { kNone, kHermes, kLlama3Json };

// The form that a model's chat template asks it for. By name: "auto" (by what the template says), "none", "hermes",
// "llama3_json", as vLLM's --tool-call-parser has them.
ToolCallForm tool_call_form(const std::string& name, const std::optional<ChatTemplate>& chat_template);

struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object as text
};

// Text that is sent to the client, and calls that are complete, in the order of the output.
struct ReadText {
  std::string text;
  std::vector<ToolCall> calls;
};

class ToolCallReader {
 public:
  explicit ToolCallReader(ToolCallForm form) : form_(form) {}

  // Text is held back while it may be, or lie before, a call.
  ReadText add(std::string_view text);
  // The output has ended.
  ReadText finish();

 private:
  void read_tagged(ReadText& out);
  void say(std::string_view text, ReadText& out);

  ToolCallForm form_;
  std::string held_;
  std::string space_;        // white space that is text only if text follows
  bool any_call_ = false;    // white space behind a call is none
  bool text_begun_ = false;  // of llama3_json: the output is no call
};

}  // namespace fk
