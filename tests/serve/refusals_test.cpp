// What a request may not be: each is refused with one sentence that names the field, and the server goes on.
#include <fmt/format.h>

#include "tests/serve/server_fixture.h"

namespace fk {
namespace {

struct Refusal {
  const char* name;
  const char* path;
  std::string body;
  int status;
  const char* param;  // "": none
  const char* words;  // in the message
};

const char* const kCompletions = "/v1/completions";
const char* const kChat = "/v1/chat/completions";

std::vector<Refusal> refusals() {
  auto with = [](const std::string& field) { return R"({"prompt": "a", )" + field + "}"; };
  auto chat = [](const std::string& field) {
    return R"({"messages": [{"role": "user", "content": "a"}], )" + field + "}";
  };
  return {
      {"empty", kCompletions, "", 400, "", "empty"},
      {"no_json", kCompletions, "{\"prompt\": ", 400, "", "The body"},
      {"a_list", kCompletions, "[]", 400, "", "object"},
      {"twice", kCompletions, R"({"prompt": "a", "prompt": "b"})", 400, "", "twice"},
      {"deep", kCompletions, std::string(100'000, '['), 400, "", "nested"},
      {"deep_field", kCompletions, with("\"x\": " + std::string(300, '[') + std::string(300, ']')), 400, "", "nested"},
      {"no_utf8", kCompletions, "{\"prompt\": \"\xff\xfe\"}", 400, "", "UTF-8"},
      {"half_surrogate", kCompletions, R"({"prompt": "\ud800"})", 400, "", "surrogate"},
      {"nan", kCompletions, with(R"("temperature": NaN)"), 400, "", "The body"},
      {"no_prompt", kCompletions, "{}", 400, "prompt", "missing"},
      {"prompt_number", kCompletions, R"({"prompt": 5})", 400, "prompt", "a text"},
      {"prompt_empty_list", kCompletions, R"({"prompt": []})", 400, "prompt", "not empty"},
      {"prompt_empty", kCompletions, R"({"prompt": ""})", 400, "prompt", "no tokens"},
      {"prompt_mixed", kCompletions, R"({"prompt": ["a", 1]})", 400, "prompt", "list"},
      {"prompt_object", kCompletions, R"({"prompt": [{}]})", 400, "prompt", "list"},
      {"prompt_negative", kCompletions, R"({"prompt": [-1]})", 400, "prompt", "token ids"},
      {"prompt_fraction", kCompletions, R"({"prompt": [1.5]})", 400, "prompt", "token ids"},
      {"prompt_outside", kCompletions, R"({"prompt": [300]})", 400, "prompt", "vocabulary has 300"},
      {"prompt_huge_id", kCompletions, R"({"prompt": [99999999999999999999999]})", 400, "prompt", "token ids"},
      {"too_long", kCompletions, R"({"prompt": ")" + std::string(128, 'a') + "\"}", 400, "prompt", "128 tokens"},
      {"max_tokens_beyond", kCompletions, with(R"("max_tokens": 128)"), 400, "max_tokens", "129 were requested"},
      {"max_tokens_huge", kCompletions, with(R"("max_tokens": 9223372036854775807)"), 400, "max_tokens", "reduce"},
      {"max_tokens_huger", kCompletions, with(R"("max_tokens": 1e300)"), 400, "max_tokens", "whole number"},
      {"max_tokens_negative", kCompletions, with(R"("max_tokens": -1)"), 400, "max_tokens", "at least 0"},
      {"max_tokens_both", kChat, chat(R"("max_tokens": -1, "max_completion_tokens": 3)"), 400, "max_tokens",
       "at least 1"},
      {"max_tokens_0", kChat, chat(R"("max_tokens": 0)"), 400, "max_tokens", "at least 1"},
      {"max_tokens_text", kCompletions, with(R"("max_tokens": "5")"), 400, "max_tokens", "whole number"},
      {"max_tokens_true", kCompletions, with(R"("max_tokens": true)"), 400, "max_tokens", "whole number"},
      {"min_tokens", kCompletions, with(R"("min_tokens": 17)"), 400, "min_tokens", "at most max_tokens"},
      {"temperature", kCompletions, with(R"("temperature": -0.1)"), 400, "temperature", "from 0 to 2"},
      {"temperature_text", kCompletions, with(R"("temperature": "hot")"), 400, "temperature", "number"},
      {"top_p", kCompletions, with(R"("top_p": 0)"), 400, "top_p", "above 0"},
      {"top_k", kCompletions, with(R"("top_k": -2)"), 400, "top_k", "from -1"},
      {"presence", kCompletions, with(R"("presence_penalty": -2.5)"), 400, "presence_penalty", "from -2 to 2"},
      {"repetition", kCompletions, with(R"("repetition_penalty": 5e-324)"), 400, "repetition_penalty", "from 0.01"},
      {"n_0", kCompletions, with(R"("n": 0)"), 400, "n", "from 1 to 128"},
      {"n_more_than_fit", kCompletions, with(R"("n": 17)"), 400, "n", "17 outputs"},
      {"best_of", kCompletions, with(R"("best_of": 2)"), 400, "best_of", "not supported"},
      {"bias_list", kCompletions, with(R"("logit_bias": [1])"), 400, "logit_bias", "object"},
      {"bias_word", kCompletions, with(R"("logit_bias": {"x": 1})"), 400, "logit_bias", "token ids"},
      {"bias_size", kCompletions, with(R"("logit_bias": {"1": 101})"), 400, "logit_bias", "100"},
      {"bias_outside", kCompletions, with(R"("logit_bias": {"300": 1})"), 400, "logit_bias", "vocabulary"},
      {"stop_empty", kCompletions, with(R"("stop": "")"), 400, "stop", "none of them empty"},
      {"stop_number", kCompletions, with(R"("stop": [1])"), 400, "stop", "list"},
      {"stop_many", kCompletions,
       with(R"("stop": ["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"])"), 400, "stop",
       "at most 16"},
      {"stop_ids", kCompletions, with(R"("stop_token_ids": 5)"), 400, "stop_token_ids", "list"},
      {"seed", kCompletions, with(R"("seed": 1.5)"), 400, "seed", "whole number"},
      {"stream", kCompletions, with(R"("stream": 1)"), 400, "stream", "true or false"},
      {"options_without_stream", kCompletions, with(R"("stream_options": {})"), 400, "stream_options",
       "needs 'stream'"},
      {"options_list", kCompletions, with(R"("stream": true, "stream_options": [])"), 400, "stream_options", "object"},
      {"logprobs", kCompletions, with(R"("logprobs": 21)"), 400, "logprobs", "from 0 to 20"},
      {"prompt_logprobs", kCompletions, with(R"("prompt_logprobs": 21)"), 400, "prompt_logprobs", "from 0 to 20"},
      {"prompt_logprobs_all", kChat, chat(R"("prompt_logprobs": -1)"), 400, "prompt_logprobs", "from 0 to 20"},
      {"prompt_logprobs_stream", kCompletions, with(R"("prompt_logprobs": 0, "stream": true)"), 400, "prompt_logprobs",
       "stream"},
      {"suffix", kCompletions, with(R"("suffix": "x")"), 400, "suffix", "not supported"},
      {"guided_empty", kChat, chat(R"("guided_json": {})"), 400, "guided_json", "not supported"},
      {"allowed_ids", kCompletions, with(R"("allowed_token_ids": [5])"), 400, "allowed_token_ids", "logit_bias"},
      {"bad_words", kChat, chat(R"("bad_words": ["x"])"), 400, "bad_words", "not supported"},
      {"truncate", kCompletions, with(R"("truncate_prompt_tokens": 4)"), 400, "truncate_prompt_tokens", "whole"},
      {"length_penalty", kCompletions, with(R"("length_penalty": 2)"), 400, "length_penalty", "one by one"},
      {"processors", kChat, chat(R"("logits_processors": ["a.b"])"), 400, "logits_processors", "not supported"},
      {"guided", kCompletions, with(R"("guided_json": {"a": 1})"), 400, "guided_json", "not supported"},
      {"model", kCompletions, with(R"("model": "gpt-4")"), 404, "model", "this server has 'tiny', 'alias'"},
      {"model_number", kCompletions, with(R"("model": 4)"), 400, "model", "a text"},
      {"no_messages", kChat, "{}", 400, "messages", "missing"},
      {"messages_text", kChat, R"({"messages": "hi"})", 400, "messages", "list"},
      {"messages_empty", kChat, R"({"messages": []})", 400, "messages", "at least one"},
      {"no_role", kChat, R"({"messages": [{"content": "a"}]})", 400, "messages", "Message 1"},
      {"content_number", kChat, R"({"messages": [{"role": "user", "content": 1}]})", 400, "messages", "Message 1"},
      {"image", kChat, R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", 400, "messages",
       "no text"},
      {"odd_call", kChat, R"({"messages": [{"role": "user", "tool_calls": [[null]]}]})", 400, "messages", "tool_calls"},
      {"odd_part", kChat, R"({"messages": [{"role": "user", "content": [{"type": 5}]}]})", 400, "messages", "no text"},
      {"tool_choice", kChat, chat(R"("tool_choice": "required")"), 400, "tool_choice", "cannot force"},
      {"tools", kChat, chat(R"("tools": {})"), 400, "tools", "list"},
      {"tools_lists", kChat, chat(R"("tools": [[null]])"), 400, "tools", "list of objects"},
      {"json_mode", kChat, chat(R"("response_format": {"type": "json_object"})"), 400, "response_format", "text"},
      {"top_logprobs", kChat, chat(R"("top_logprobs": 3)"), 400, "top_logprobs", "needs 'logprobs'"},
      {"kwargs", kChat, chat(R"("chat_template_kwargs": [])"), 400, "chat_template_kwargs", "object"},
      {"template", kChat, chat(R"("chat_template": "x")"), 400, "chat_template", "not supported"},
      {"tokenize_both", "/tokenize", "{}", 400, "prompt", "either"},
      {"detokenize", "/detokenize", R"({"tokens": ["a"]})", 400, "tokens", "token ids"},
      {"detokenize_outside", "/detokenize", R"({"tokens": [301]})", 400, "tokens", "vocabulary"},
      {"embeddings", "/v1/embeddings", R"({"input": "a"})", 404, "model", "encoder"},
  };
}

TEST_F(ServerTest, WrongRequestsAreRefusedWithOneSentence) {
  start();
  TestClient client(port);  // one connection for all: none of them ends it
  for (const Refusal& refusal : refusals()) {
    SCOPED_TRACE(refusal.name);
    client.send(post_text(refusal.path, refusal.body));
    Answer answer = client.read_answer();
    ASSERT_EQ(answer.status, refusal.status) << answer.body;
    Json error = answer.json()["error"];
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_EQ(error["param"], *refusal.param == '\0' ? Json() : Json(refusal.param)) << error;
    std::string message = error["message"];
    EXPECT_NE(message.find(refusal.words), std::string::npos) << message;
    EXPECT_LT(message.size(), 400U);
  }
  EXPECT_EQ(post(port, kCompletions, {{"prompt", "a"}}).status, 200);
}

TEST_F(ServerTest, WrongAddressesAndMethods) {
  start();
  EXPECT_EQ(get(port, "/v1/none").status, 404);
  Answer method = get(port, kCompletions);
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.field("Allow"), "POST");
  EXPECT_EQ(ask(port, "PUT /health HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").field("Allow"), "GET");
  EXPECT_EQ(
      ask(port, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")
          .status,
      415);
  auto encoded = [&](const std::string& encoding) {
    return ask(port,
               "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Encoding: " +
                   encoding + "\r\nContent-Length: 15\r\n\r\n{\"prompt\": \"a\"}");
  };
  EXPECT_EQ(encoded("gzip").status, 415);
  EXPECT_NE(encoded("gzip").body.find("compressed"), std::string::npos);
  EXPECT_EQ(encoded("identity").status, 200);
  EXPECT_EQ(get(port, "/v1/models/%00%ff").status, 404);
  EXPECT_EQ(get(port, "/%zz%").status, 404);
}

}  // namespace
}  // namespace fk
