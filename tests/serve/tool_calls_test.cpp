// Calls of tools are found in a text however it is cut, and what only looks like one stays text.
#include "serve/tool_calls.h"

#include <gtest/gtest.h>

namespace fk {
namespace {

// "text|name(arguments)|..." of an output that comes in pieces of this size.
std::string read(ToolCallForm form, std::string_view output, size_t piece) {
  ToolCallReader reader(form);
  std::string text, calls;
  auto take = [&](const ReadText& read) {
    text += read.text;
    for (const ToolCall& call : read.calls) calls += "|" + call.name + "(" + call.arguments + ")";
  };
  for (size_t at = 0; at < output.size(); at += piece) take(reader.add(output.substr(at, piece)));
  take(reader.finish());
  return text + calls;
}

void expect_read(ToolCallForm form, std::string_view output, const std::string& expected) {
  for (size_t piece : {size_t{1}, size_t{2}, size_t{3}, size_t{7}, size_t{1000}})
    EXPECT_EQ(read(form, output, piece), expected) << "in pieces of " << piece << ": " << output;
}

TEST(ToolCalls, OfHermesAreBetweenTags) {
  auto expect = [](std::string_view output, const std::string& expected) {
    expect_read(ToolCallForm::kHermes, output, expected);
  };
  expect("", "");
  expect("No call here. <b> <tool", "No call here. <b> <tool");
  expect("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1, \"y\": [2]}}\n</tool_call>",
         "|f({\"x\":1,\"y\":[2]})");
  expect(
      "I look it up.\n\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n<tool_call>{\"name\": \"g\", "
      "\"arguments\": {\"a\": \"</b>\"}}</tool_call>\n",
      "I look it up.|f({})|g({\"a\":\"</b>\"})");
  expect("<tool_call>{\"name\": \"f\"}</tool_call> and more", " and more|f({})");
  expect("<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"x\\\": 1}\"}</tool_call>", "|f({\"x\": 1})");
  // Not a call: no JSON, another object, or cut off.
  expect("a <tool_call>f(x)</tool_call> b", "a <tool_call>f(x)</tool_call> b");
  expect("<tool_call>{\"nom\": \"f\"}</tool_call>", "<tool_call>{\"nom\": \"f\"}</tool_call>");
  expect("<tool_call>{\"name\": \"f\", \"arguments\": 3}</tool_call>",
         "<tool_call>{\"name\": \"f\", \"arguments\": 3}</tool_call>");
  expect("x <tool_call>{\"name\": \"f\", \"argu", "x <tool_call>{\"name\": \"f\", \"argu");
  expect("spaces stay \n at the end \n", "spaces stay \n at the end \n");
}

TEST(ToolCalls, OfLlamaAreTheWholeText) {
  auto expect = [](std::string_view output, const std::string& expected) {
    expect_read(ToolCallForm::kLlama3Json, output, expected);
  };
  expect("", "");
  expect("Hello {\"name\": \"f\", \"parameters\": {}}", "Hello {\"name\": \"f\", \"parameters\": {}}");
  expect("{\"name\": \"f\", \"parameters\": {\"x\": \"} \\\" {\"}}", "|f({\"x\":\"} \\\" {\"})");
  expect(" \n<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"arguments\": {\"y\": 2}}",
         "|f({})|g({\"y\":2})");
  expect("{\"name\": \"f\", \"parameters\": {}} and text", "{\"name\": \"f\", \"parameters\": {}} and text");
  expect("{\"a\": 1}", "{\"a\": 1}");
  expect("{\"name\": \"f\", \"para", "{\"name\": \"f\", \"para");
  expect("<|python_tag|>print(1)", "<|python_tag|>print(1)");
  expect("<|python", "<|python");
}

TEST(ToolCalls, WithoutAFormAreText) {
  expect_read(ToolCallForm::kNone, "<tool_call>{\"name\": \"f\"}</tool_call>",
              "<tool_call>{\"name\": \"f\"}</tool_call>");
  EXPECT_EQ(tool_call_form("auto", std::nullopt), ToolCallForm::kNone);
  EXPECT_EQ(tool_call_form("hermes", std::nullopt), ToolCallForm::kHermes);
  EXPECT_EQ(tool_call_form("llama3_json", std::nullopt), ToolCallForm::kLlama3Json);
}

}  // namespace
}  // namespace fk
