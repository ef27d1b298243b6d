#include "serve/tool_calls.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/json.h"

namespace fk {
namespace {

constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>", kPythonTag = "<|python_tag|>";
constexpr std::string_view kSpace = " \t\r\n";

// The call that a JSON object is; none if it is another one.
std::optional<ToolCall> call_of(std::string_view text) {
  Json json;
  try {
    json = parse_json(text, "tool call");
  } catch (const Error&) {
    return std::nullopt;
  }
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return std::nullopt;
  for (const char* key : {"arguments", "parameters"}) {
    if (!json.contains(key)) continue;
    const Json& arguments = json[key];
    if (arguments.is_object()) return ToolCall{json["name"].get<std::string>(), dump_json(arguments, -1)};
    if (arguments.is_string()) return ToolCall{json["name"].get<std::string>(), arguments.get<std::string>()};
    return std::nullopt;
  }
  return ToolCall{json["name"].get<std::string>(), "{}"};
}

// The end of the JSON object that the text begins with; npos if it has none.
size_t object_end(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return text.npos;
}

// Objects with ; or white space between them, all of them calls; empty if there is anything else.
std::vector<ToolCall> calls_in_sequence(std::string_view text) {
  std::vector<ToolCall> calls;
  for (;;) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t\r\n;")));
    if (text.empty()) return calls;
    const size_t end = object_end(text);
    std::optional<ToolCall> call;
    if (end != text.npos) call = call_of(text.substr(0, end));
    if (!call) return {};
    calls.push_back(std::move(*call));
    text.remove_prefix(end);
  }
}

// Bytes at the end of a text that `word` may begin with.
size_t may_begin(std::string_view text, std::string_view word) {
  for (size_t n = std::min(text.size(), word.size() - 1); n > 0; --n)
    if (text.substr(text.size() - n) == word.substr(0, n)) return n;
  return 0;
}

}  // namespace

ToolCallForm tool_call_form(const std::string& name, const std::optional<ChatTemplate>& chat_template) {
  if (name == "hermes") return ToolCallForm::kHermes;
  if (name == "llama3_json") return ToolCallForm::kLlama3Json;
  if (name == "none" || !chat_template) return ToolCallForm::kNone;
  if (chat_template->mentions(kOpen)) return ToolCallForm::kHermes;
  // The tag is in Llama's templates for calls of its own tools; beside it they ask for JSON with parameters.
  if (chat_template->mentions(kPythonTag) && chat_template->mentions("parameters")) return ToolCallForm::kLlama3Json;
  return ToolCallForm::kNone;
}

ReadText ToolCallReader::add(std::string_view text) {
  ReadText out;
  if (form_ == ToolCallForm::kNone || text_begun_) {
    out.text = text;
    return out;
  }
  held_ += text;
  if (form_ == ToolCallForm::kHermes) {
    read_tagged(out);
    return out;
  }
  // A call is the whole text, so its first character that is no space decides.
  std::string_view rest = held_;
  rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(kSpace)));
  if (rest.empty() || rest[0] == '{' || kPythonTag.starts_with(rest.substr(0, kPythonTag.size()))) return out;
  text_begun_ = true;
  out.text = std::exchange(held_, {});
  return out;
}

void ToolCallReader::read_tagged(ReadText& out) {
  for (;;) {
    const size_t open = held_.find(kOpen);
    if (open == held_.npos) {
      const size_t known = held_.size() - may_begin(held_, kOpen);
      say(std::string_view(held_).substr(0, known), out);
      held_.erase(0, known);
      return;
    }
    say(std::string_view(held_).substr(0, open), out);
    held_.erase(0, open);
    const size_t close = held_.find(kClose);
    if (close == held_.npos) return;
    const std::string_view inside = std::string_view(held_).substr(kOpen.size(), close - kOpen.size());
    if (std::optional<ToolCall> call = call_of(inside)) {
      space_.clear();
      any_call_ = true;
      out.calls.push_back(std::move(*call));
    } else {
      say(std::string_view(held_).substr(0, close + kClose.size()), out);
    }
    held_.erase(0, close + kClose.size());
  }
}

// White space waits for what follows it: before a call it is not part of the text.
void ToolCallReader::say(std::string_view text, ReadText& out) {
  const size_t last = text.find_last_not_of(kSpace);
  if (last == text.npos) {
    space_ += text;
    return;
  }
  out.text += std::exchange(space_, {});
  out.text += text.substr(0, last + 1);
  space_ = text.substr(last + 1);
}

ReadText ToolCallReader::finish() {
  ReadText out;
  if (form_ == ToolCallForm::kLlama3Json && !text_begun_) {
    std::string_view rest = held_;
    rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(kSpace)));
    if (rest.starts_with(kPythonTag)) rest.remove_prefix(kPythonTag.size());
    out.calls = calls_in_sequence(rest);
  }
  if (out.calls.empty() && !held_.empty()) {
    out.text = std::exchange(space_, {}) + std::exchange(held_, {});
  } else if (!any_call_) {
    out.text = std::exchange(space_, {});
  }
  held_.clear();
  return out;
}

}  // namespace fk
