#include "models/chat_template.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/json.h"
#include "tests/models/error_text.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

const Json kHello = {{{"role", "user"}, {"content", "Hi"}}};

class ChatTemplates : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::ofstream(std::filesystem::path(folder_.path()) / name) << text;
  }
  std::string rendered(const Chat& chat) const { return ChatTemplate::of_folder(folder_.path())->render(chat, 0); }

  TempDirectory folder_;
};

TEST_F(ChatTemplates, AreFoundWhereTransformersKeepsThem) {
  EXPECT_FALSE(ChatTemplate::of_folder(folder_.path()));
  write("tokenizer_config.json",
        R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "unk_token": null,
            "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ unk_token is defined }}"})");
  EXPECT_EQ(rendered({.messages = &kHello}), "<s>Hi</s>False");
  // A file of its own has precedence.
  write("chat_template.jinja", "{{ bos_token }}{{ add_generation_prompt }}{{ tools }}\n");
  EXPECT_EQ(rendered({.messages = &kHello}), "<s>TrueNone");
  EXPECT_EQ(rendered({.messages = &kHello, .add_generation_prompt = false}), "<s>FalseNone");
}

TEST_F(ChatTemplates, HaveOneForTools) {
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template": "plain {{ more }}"},
                              {"name": "tool_use", "template": "tools {{ tools[0].name }}"}]})");
  Json tools = {{{"name", "clock"}}}, more = {{"more", 7}};
  EXPECT_EQ(rendered({.messages = &kHello, .arguments = &more}), "plain 7");
  EXPECT_EQ(rendered({.messages = &kHello, .tools = &tools}), "tools clock");
}

TEST_F(ChatTemplates, SayWhatIsWrong) {
  write("tokenizer_config.json", R"({"chat_template": "{{ messages.x.y }}"})");
  Json empty = Json::array(), no_role = {{{"content", "Hi"}}}, number = 3;
  EXPECT_EQ(error_of([&] { rendered({.messages = &empty}); }),
            "The messages must be a list with at least one object, as [{\"role\": \"user\", \"content\": \"Hi\"}].");
  EXPECT_NE(error_of([&] { rendered({.messages = &no_role}); }).find("Message 1 must be an object with a role"),
            std::string::npos);
  EXPECT_EQ(error_of([&] { rendered({.messages = &kHello, .tools = &number}); }),
            "The tools must be a list of objects.");
  EXPECT_NE(error_of([&] { rendered({.messages = &kHello}); }).find("line 1: 'x' is undefined."), std::string::npos);
  write("tokenizer_config.json", R"({"chat_template": [{"name": "default"}]})");
  EXPECT_NE(error_of([&] { ChatTemplate::of_folder(folder_.path()); }).find("must be a text, or a list"),
            std::string::npos);
}

}  // namespace
}  // namespace fk
