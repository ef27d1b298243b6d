// The endpoints: answers as OpenAI's clients expect them.
#include <fmt/format.h>

#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>

#include "core/error.h"
#include "tests/serve/server_fixture.h"
#include "track/base64.h"

namespace fk {
namespace {

using ApiTest = ServerTest;

TEST_F(ApiTest, Completion) {
  start();
  Answer answer = post(port, "/v1/completions", {{"model", "tiny"}, {"prompt", "ab"}, {"max_tokens", 3}});
  EXPECT_EQ(answer.status, 200);
  Json json = answer.json();
  EXPECT_TRUE(json["id"].get<std::string>().starts_with("cmpl-"));
  EXPECT_EQ(answer.field("X-Request-Id"), json["id"]);
  EXPECT_EQ(json["object"], "text_completion");
  EXPECT_EQ(json["model"], "tiny");
  EXPECT_EQ(json["choices"], Json::parse(R"([{"index": 0, "text": "w0 w1 w2 ", "logprobs": null,
                                              "finish_reason": "length", "stop_reason": null}])"));
  EXPECT_EQ(json["usage"], Json::parse(R"({"prompt_tokens": 2, "total_tokens": 5, "completion_tokens": 3,
                                           "prompt_tokens_details": {"cached_tokens": 0}})"));
  EXPECT_EQ(engine.request(0).prompt, (std::vector<int64_t>{97, 98}));
  EXPECT_EQ(engine.request(0).sampling.temperature, 1);
}

TEST_F(ApiTest, PromptsInEveryForm) {
  start();
  auto texts = [&](const Json& prompt, int n) {
    Json json = post(port, "/v1/completions", {{"prompt", prompt}, {"max_tokens", 1}, {"n", n}, {"echo", true}}).json();
    std::vector<std::string> all;
    for (size_t i = 0; i < json["choices"].size(); ++i) {
      EXPECT_EQ(json["choices"][i]["index"], i);
      all.push_back(json["choices"][i]["text"]);
    }
    return all;
  };
  EXPECT_EQ(texts("ab", 2), (std::vector<std::string>{"abw0 ", "abw0 "}));
  EXPECT_EQ(texts({"a", "b"}, 2), (std::vector<std::string>{"aw0 ", "aw0 ", "bw0 ", "bw0 "}));
  EXPECT_EQ(texts({97, 98}, 1), (std::vector<std::string>{"abw0 "}));
  EXPECT_EQ(texts(Json::parse("[[97], [98, 99]]"), 1), (std::vector<std::string>{"aw0 ", "bcw0 "}));
  // Choices of one request have different seeds, and the same ones every time.
  post(port, "/v1/completions", {{"prompt", "a"}, {"seed", 7}, {"n", 2}});
  EXPECT_EQ(engine.request(9).sampling.seed, 7U);
  EXPECT_EQ(engine.request(10).sampling.seed, 8U);
}

TEST_F(ApiTest, CompletionStream) {
  start();
  Answer answer = post(
      port, "/v1/completions",
      {{"prompt", {"a", "b"}}, {"max_tokens", 2}, {"stream", true}, {"stream_options", {{"include_usage", true}}}});
  EXPECT_EQ(answer.field("Content-Type"), "text/event-stream; charset=utf-8");
  std::string text[2], finish[2];
  std::vector<Json> all = events(answer.body);
  ASSERT_EQ(all.size(), 5U);
  for (size_t i = 0; i < 4; ++i) {
    const Json& choice = all[i]["choices"][0];
    size_t index = choice["index"];
    text[index] += choice["text"];
    if (!choice["finish_reason"].is_null()) finish[index] += choice["finish_reason"];
    EXPECT_TRUE(all[i]["usage"].is_null());
    EXPECT_EQ(all[i]["id"], all[0]["id"]);
  }
  EXPECT_EQ(text[0], "w0 w1 ");
  EXPECT_EQ(text[1], "w0 w1 ");
  EXPECT_EQ(finish[0], "length");
  EXPECT_EQ(finish[1], "length");
  EXPECT_EQ(all[4]["choices"], Json::array());
  EXPECT_EQ(all[4]["usage"]["completion_tokens"], 4);
}

TEST_F(ApiTest, EveryTokenIsSentAsItComes) {
  engine.answers = false;
  start();
  TestClient client(port);
  client.send(post_text("/v1/completions", R"({"prompt": "a", "stream": true, "max_tokens": 9})"));
  Request request = engine.request(0);
  for (int i = 0; i < 9; ++i) {
    engine.push(0, words(request, i, 1, i == 8 ? FinishReason::kStop : FinishReason::kNone));
    // Nothing more is sent before this one has arrived.
    EXPECT_NE(client.read_until(fmt::format("w{} ", i)).find("text"), std::string::npos);
  }
  EXPECT_NE(client.read_until("[DONE]").find("\"finish_reason\":\"stop\""), std::string::npos);
}

TEST_F(ApiTest, LogProbabilities) {
  start();
  Json json = post(port, "/v1/completions", {{"prompt", "a"}, {"max_tokens", 2}, {"logprobs", 2}}).json();
  EXPECT_EQ(json["choices"][0]["logprobs"],
            Json::parse(R"({"text_offset": [0, 5], "token_logprobs": [-0.5, -0.5], "tokens": ["<100>", "<101>"],
                            "top_logprobs": [{"<100>": -0.5, "<101>": -1.5}, {"<101>": -0.5, "<102>": -1.5}]})"));
  json = post(port, "/v1/chat/completions",
              Json::parse(R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "logprobs": true,
                              "top_logprobs": 1, "return_tokens_as_token_ids": true})"))
             .json();
  Json token = Json::parse(R"({"token": "token_id:100", "logprob": -0.5,
                               "bytes": [116, 111, 107, 101, 110, 95, 105, 100, 58, 49, 48, 48]})");
  Json drawn = token;
  drawn["top_logprobs"] = Json::array({token});
  EXPECT_EQ(json["choices"][0]["logprobs"]["content"], Json::array({drawn}));
}

// Of the prompts of lm-eval-harness and its relatives.
TEST_F(ApiTest, LogProbabilitiesOfThePrompt) {
  start();
  Json fields = {{"prompt", {"ab", "c"}}, {"max_tokens", 1}, {"logprobs", 1}, {"echo", true}, {"n", 2}};
  Json json = post(port, "/v1/completions", fields).json();
  ASSERT_EQ(json["choices"].size(), 4U);
  const Json first = Json::parse(
      R"({"text_offset": [0, 4, 8], "token_logprobs": [null, -2.5, -0.5], "tokens": ["<97>", "<98>", "<100>"],
          "top_logprobs": [null, {"<200>": -1.0, "<98>": -2.5}, {"<100>": -0.5}]})");
  const Json second = Json::parse(R"({"text_offset": [0, 4], "token_logprobs": [null, -0.5],
                                      "tokens": ["<99>", "<100>"], "top_logprobs": [null, {"<100>": -0.5}]})");
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(json["choices"][i]["logprobs"], i < 2 ? first : second);
    EXPECT_EQ(json["choices"][i]["text"], i < 2 ? "abw0 " : "cw0 ");
    // The second choice of a prompt does not compute it again.
    EXPECT_EQ(engine.request(i).prompt_logprobs, i % 2 == 0 ? std::optional(1) : std::nullopt);
  }
  // No token is drawn.
  json = post(port, "/v1/completions", {{"prompt", "ab"}, {"max_tokens", 0}, {"logprobs", 0}, {"echo", true}}).json();
  EXPECT_EQ(json["choices"][0]["logprobs"],
            Json::parse(R"({"text_offset": [0, 4], "token_logprobs": [null, -2.5], "tokens": ["<97>", "<98>"],
                            "top_logprobs": [null, {"<98>": -2.5}]})"));
  EXPECT_EQ(json["choices"][0]["text"], "ab");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(json["usage"]["completion_tokens"], 0);
  // A prompt as long as the context leaves no room, and needs none.
  std::string longest(128, 'a');
  EXPECT_EQ(post(port, "/v1/completions", {{"prompt", longest}, {"max_tokens", 0}, {"echo", true}}).status, 200);
  EXPECT_EQ(post(port, "/v1/completions", {{"prompt", longest}, {"max_tokens", 1}}).status, 400);
}

TEST_F(ApiTest, LogProbabilitiesOfThePromptInAStream) {
  engine.answers = false;
  start();
  TestClient client(port);
  client.send(post_text("/v1/completions",
                        R"({"prompt": "ab", "stream": true, "max_tokens": 2, "logprobs": 0, "echo": true, "n": 2})"));
  Request asks = engine.request(0), other = engine.request(1);
  // The second choice is first, and has ended before the prompt's log-probabilities are known.
  engine.push(1, words(other, 0, 2, FinishReason::kLength));
  engine.push(0, words(asks, 0, 1, FinishReason::kNone));
  engine.push(0, words(asks, 1, 1, FinishReason::kLength));
  std::string body = client.read_until("[DONE]");
  std::string text[2];
  Json offsets[2] = {Json::array(), Json::array()}, values[2] = {Json::array(), Json::array()};
  int ends[2] = {0, 0};
  for (size_t at = body.find("data: {"); at != std::string::npos; at = body.find("data: {", at + 1)) {
    Json choice = Json::parse(body.substr(at + 6, body.find('\n', at) - at - 6))["choices"][0];
    const size_t index = choice["index"];
    text[index] += choice["text"];
    for (const Json& one : choice["logprobs"]["text_offset"]) offsets[index].push_back(one);
    for (const Json& one : choice["logprobs"]["token_logprobs"]) values[index].push_back(one);
    ends[index] += choice["finish_reason"].is_null() ? 0 : 1;
  }
  for (size_t index : {0, 1}) {
    EXPECT_EQ(text[index], "abw0 w1 ");
    EXPECT_EQ(values[index], Json::parse("[null, -2.5, -0.5, -0.5]"));
    EXPECT_EQ(ends[index], 1);
  }
  EXPECT_EQ(offsets[0], Json::parse("[0, 4, 2, 5]")) << "names of tokens have other lengths than the text";
}

TEST_F(ApiTest, PromptLogprobsAsVllmHasThem) {
  start();
  const Json expected = Json::parse(
      R"([null, {"98": {"logprob": -2.5, "rank": 7, "decoded_token": "<98>"},
                 "200": {"logprob": -1.0, "rank": 1, "decoded_token": "<200>"}}])");
  Json fields = {{"prompt", "ab"}, {"max_tokens", 1}, {"prompt_logprobs", 1}};
  Json choice = post(port, "/v1/completions", fields).json()["choices"][0];
  EXPECT_EQ(choice["prompt_logprobs"], expected);
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_EQ(choice["text"], "w0 ");
  // Each has as many of the likeliest tokens as it asks for.
  fields.update({{"echo", true}, {"logprobs", 3}});
  choice = post(port, "/v1/completions", fields).json()["choices"][0];
  EXPECT_EQ(choice["prompt_logprobs"], expected);
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][1].size(), 4U);
  Json chat = post(port, "/v1/chat/completions",
                   Json::parse(R"({"messages": [{"role": "user", "content": "a"}], "prompt_logprobs": 0, "n": 2})"))
                  .json();
  EXPECT_EQ(chat["prompt_logprobs"].size(), engine.request(2).prompt.size());
  EXPECT_TRUE(chat["prompt_logprobs"][0].is_null());
}

TEST_F(ApiTest, Chat) {
  std::string path = testing::TempDir() + "/fk_serve_template.jinja";
  std::ofstream(path)
      << "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if tools %}T{{ tools|length }}"
         "{% endif %}{% if add_generation_prompt %}[a]{% endif %}{{ mark }}";
  model.chat_template = ChatTemplate::of_file(path, std::nullopt);
  start();
  Json body = Json::parse(R"({"messages": [{"role": "system", "content": "s"},
      {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]}],
      "tools": [{"type": "function"}], "chat_template_kwargs": {"mark": "!"}, "max_completion_tokens": 2,
      "stop": "x", "temperature": 0, "unknown_field": 1})");
  Json json = post(port, "/v1/chat/completions", body).json();
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(json["choices"][0]["message"]["content"], "w0 w1 ");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  Request request = engine.request(0);
  EXPECT_EQ(std::string(request.prompt.begin(), request.prompt.end()), "[system]s[user]b\ncT1[a]!");
  EXPECT_EQ(request.stop, (std::vector<std::string>{"x"}));
  EXPECT_EQ(request.stop_tokens, (std::vector<int64_t>{2}));
  EXPECT_EQ(request.sampling.temperature, 0);

  body["stream"] = true;
  std::vector<Json> all = events(post(port, "/v1/chat/completions", body).body);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0]["object"], "chat.completion.chunk");
  EXPECT_EQ(all[0]["choices"][0]["delta"], (Json{{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(all[1]["choices"][0]["delta"], (Json{{"content", "w0 "}}));
  EXPECT_EQ(all[2]["choices"][0]["finish_reason"], "length");

  // Without a limit the output may reach the end of the context.
  body.erase("max_completion_tokens");
  body["stream"] = false;
  body["tool_choice"] = "none";
  post(port, "/v1/chat/completions", body);
  EXPECT_EQ(engine.request(2).max_tokens, 128 - 22);
}

TEST_F(ApiTest, CallsOfToolsAreNoText) {
  model.tool_calls = ToolCallForm::kHermes;
  engine.answers = false;
  start();
  Json body = Json::parse(R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"type": "function"}]})");
  const std::vector<std::string> pieces = {"Let me", " see.\n<tool",
                                           "_call>{\"name\": \"f\", \"arguments\": {\"x\": 1}}",
                                           "</tool_call>\n<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>"};
  auto answer = [&](size_t index) {
    engine.wait_for_requests(index + 1);
    for (size_t i = 0; i < pieces.size(); ++i) {
      RequestOutput output;
      output.tokens = {5};
      output.text = pieces[i];
      if (i + 1 == pieces.size()) output.finish = FinishReason::kStop;
      engine.push(index, output);
    }
  };
  auto ask = [&](size_t index) {
    std::thread model_thread([&] { answer(index); });
    Answer got = post(port, "/v1/chat/completions", body);
    model_thread.join();
    return got;
  };
  Json choice = ask(0).json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "Let me see.");
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 2u);
  const Json& call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"], (Json{{"name", "f"}, {"arguments", "{\"x\":1}"}}));
  EXPECT_NE(call["id"], choice["message"]["tool_calls"][1]["id"]);

  body["stream"] = true;
  std::string text;
  std::vector<Json> calls;
  std::vector<Json> all = events(ask(1).body);
  for (const Json& event : all) {
    const Json& delta = event["choices"][0]["delta"];
    if (delta.contains("content")) text += delta["content"].get<std::string>();
    if (delta.contains("tool_calls"))
      for (const Json& one : delta["tool_calls"]) calls.push_back(one);
  }
  EXPECT_EQ(text, "Let me see.");
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]["index"], 0);
  EXPECT_EQ(calls[1]["index"], 1);
  EXPECT_EQ(calls[1]["function"], (Json{{"name", "g"}, {"arguments", "{}"}}));
  EXPECT_EQ(all.back()["choices"][0]["finish_reason"], "tool_calls");

  // Without tools, or where they must not be called, it is text.
  body["stream"] = false;
  body["tool_choice"] = "none";
  choice = ask(2).json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_NE(choice["message"]["content"].get<std::string>().find("<tool_call>"), std::string::npos);
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
}

TEST_F(ApiTest, FieldsReachTheEngine) {
  start();
  post(port, "/v1/completions",
       Json::parse(R"({"prompt": "a", "max_tokens": 5, "min_tokens": 2, "top_p": 0.5, "top_k": 3, "min_p": 0.25,
           "presence_penalty": -1, "frequency_penalty": 2, "repetition_penalty": 1.5, "logit_bias": {"7": -100},
           "stop": ["x", "yz"], "stop_token_ids": [9], "ignore_eos": true, "skip_special_tokens": false, "top_logprobs": null})"));
  Request r = engine.request(0);
  EXPECT_EQ(r.min_tokens, 2);
  EXPECT_EQ(r.sampling.top_p, 0.5);
  EXPECT_EQ(r.sampling.top_k, 3);
  EXPECT_EQ(r.sampling.min_p, 0.25);
  EXPECT_EQ(r.sampling.presence_penalty, -1);
  EXPECT_EQ(r.sampling.frequency_penalty, 2);
  EXPECT_EQ(r.sampling.repetition_penalty, 1.5);
  EXPECT_EQ(r.sampling.logit_bias, (std::vector<std::pair<int64_t, float>>{{7, -100.F}}));
  EXPECT_EQ(r.stop, (std::vector<std::string>{"x", "yz"}));
  EXPECT_EQ(r.stop_tokens, (std::vector<int64_t>{9})) << "only what the request names";
  EXPECT_FALSE(r.ignore_eos);
  EXPECT_FALSE(r.skip_special_tokens);
}

TEST_F(ApiTest, EnginesFaultsAreAnswers) {
  engine.answers = false;
  start();
  auto fault = [&, n = size_t{0}](const Json& body, FinishReason finish) mutable {
    TestClient client(port);
    client.send(post_text("/v1/completions", body.dump()));
    RequestOutput output;
    output.finish = finish;
    output.error = "The logits are not numbers.";
    engine.push(n++, output);
    return client.read_answer();
  };
  Answer failed = fault({{"prompt", "a"}}, FinishReason::kError);
  EXPECT_EQ(failed.status, 500);
  EXPECT_EQ(failed.json()["error"]["message"], "The logits are not numbers.");
  EXPECT_EQ(fault({{"prompt", "a"}}, FinishReason::kTimeout).status, 504);
  Answer stream = fault({{"prompt", "a"}, {"stream", true}}, FinishReason::kError);
  EXPECT_EQ(stream.status, 200);
  EXPECT_EQ(events(stream.body).at(0)["error"]["type"], "server_error");
}

TEST_F(ApiTest, AFullQueueIs429AndLeavesNothingBehind) {
  engine.answers = false;
  int room = 3;
  engine.before_submit = [&](const Request&) {
    if (room-- == 0) throw QueueFull("16 requests wait already.");
  };
  start();
  Answer refused = post(port, "/v1/completions", {{"prompt", "a"}, {"n", 4}});
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.field("Retry-After"), "1");
  EXPECT_EQ(refused.json()["error"]["type"], "rate_limit_error");
  engine.wait_for_cancelled(3);
}

TEST_F(ApiTest, KeysGuardTheModel) {
  options.api_key = "secret";
  start();
  std::string body = R"({"prompt": "a"})";
  EXPECT_EQ(ask(port, post_text("/v1/completions", body)).status, 401);
  EXPECT_EQ(ask(port, post_text("/v1/completions", body, "Authorization: Bearer wrong!\r\n")).status, 401);
  EXPECT_EQ(ask(port, post_text("/v1/completions", body, "Authorization: Bearer secret\r\n")).status, 200);
  EXPECT_EQ(ask(port, post_text("/v1/completions", body, "Authorization: bearer secret\r\n")).status, 200);
  EXPECT_EQ(ask(port, post_text("/v1/completions", body, "Authorization: Basic secret\r\n")).status, 401);
  EXPECT_EQ(get(port, "/v1/models").json()["error"]["code"], "invalid_api_key");
  EXPECT_EQ(get(port, "/health").status, 200);
}

TEST_F(ApiTest, ModelsAndTokens) {
  start();
  Json models = get(port, "/v1/models").json();
  EXPECT_EQ(models["data"][0]["id"], "tiny");
  EXPECT_EQ(models["data"][1]["id"], "alias");
  EXPECT_EQ(models["data"][0]["max_model_len"], 128);
  EXPECT_EQ(get(port, "/v1/models/al%69as").json()["id"], "alias");
  EXPECT_EQ(get(port, "/v1/models/none").status, 404);
  EXPECT_EQ(post(port, "/tokenize", {{"prompt", "ab"}, {"return_token_strs", true}}).json(),
            Json::parse(R"({"count": 2, "max_model_len": 128, "tokens": [97, 98], "token_strs": ["a", "b"]})"));
  EXPECT_EQ(post(port, "/tokenize", Json::parse(R"({"messages": [{"role": "u", "content": "x"}]})")).json()["count"],
            16);
  EXPECT_EQ(post(port, "/detokenize", {{"tokens", {97, 98}}}).json()["prompt"], "ab");
}

TEST_F(ApiTest, LargePromptsAreReadOnAnotherThread) {
  model.max_model_len = 1 << 20;
  start();
  std::string prompt(200'000, 'a');
  EXPECT_EQ(post(port, "/v1/completions", {{"prompt", prompt}}).json()["usage"]["prompt_tokens"], 200'000);
  EXPECT_EQ(post(port, "/v1/completions", {{"prompt", prompt}, {"n", 0}}).json()["error"]["param"], "n");
  EXPECT_EQ(post(port, "/tokenize", {{"prompt", prompt}}).json()["count"], 200'000);
}

TEST_F(ApiTest, MetricsCount) {
  TestClient client(start());  // one connection: the first answer is counted before the second request is read
  client.send(post_text("/v1/completions", R"({"prompt": "a", "max_tokens": 3})"));
  client.read_answer();
  client.send(get_text("/metrics"));
  std::string text = client.read_answer().body;
  for (const char* line :
       {"vllm:num_requests_running{model_name=\"tiny\"} 0\n", "vllm:kv_cache_usage_perc{model_name=\"tiny\"} 0.5\n",
        "vllm:generation_tokens_total{model_name=\"tiny\"} 42\n",
        "vllm:spec_decode_num_draft_tokens_total{model_name=\"tiny\"} 9\n",
        "vllm:request_success_total{model_name=\"tiny\",finished_reason=\"length\"} 1\n",
        "vllm:time_to_first_token_seconds_count{model_name=\"tiny\"} 1\n",
        "vllm:inter_token_latency_seconds_count{model_name=\"tiny\"} 2\n",
        "vllm:e2e_request_latency_seconds_bucket{model_name=\"tiny\",le=\"+Inf\"} 1\n",
        "fastkernels:http_requests_total{model_name=\"tiny\",path=\"/v1/completions\",status=\"200\"} 1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  EXPECT_EQ(get(port, "/stats").json()["generated_tokens"], 42);
  EXPECT_NE(get(port, "/").body.find("<!DOCTYPE html>"), std::string::npos);
  Json described = get(port, "/openapi.json").json();
  EXPECT_EQ(described["info"]["version"], "1.2.3");
  const Json& fields = described["components"]["schemas"]["DetokenizeRequest"]["properties"];
  EXPECT_EQ(fields["model"]["enum"][0], "tiny");
  EXPECT_EQ(fields["tokens"]["items"]["maximum"], 299);
}

TEST_F(ApiTest, Embeddings) {
  size_t batches = 0;
  EmbeddingQueue queue(
      [&](const std::vector<std::vector<int64_t>>& texts) {
        ++batches;
        std::vector<Embedding> all;
        for (const auto& text : texts) {
          if (text[0] == 'z') throw Error("The vectors are not numbers.");
          all.push_back({static_cast<float>(text.size()), static_cast<float>(text[0])});
        }
        return all;
      },
      4, 8);
  start(&queue);
  Json json = post(port, "/v1/embeddings", {{"input", {"aaa", "bb", "c"}}}).json();
  EXPECT_EQ(json["data"][1], Json::parse(R"({"object": "embedding", "index": 1, "embedding": [2.0, 98.0]})"));
  EXPECT_EQ(json["usage"]["prompt_tokens"], 6);
  EXPECT_EQ(batches, 2U) << "3 tokens, then 3 more";
  json = post(port, "/v1/embeddings", {{"input", "a"}, {"encoding_format", "base64"}}).json();
  float numbers[2] = {1, 97};
  EXPECT_EQ(json["data"][0]["embedding"], to_base64({reinterpret_cast<const char*>(numbers), sizeof numbers}));
  EXPECT_EQ(post(port, "/v1/embeddings", {{"input", "z"}}).status, 500);
  EXPECT_EQ(post(port, "/v1/completions", {{"prompt", "a"}}).status, 404);
  for (const char* field : {"dimensions", "truncate_prompt_tokens"})
    EXPECT_EQ(post(port, "/v1/embeddings", {{"input", "a"}, {field, 0}}).json()["error"]["param"], field);
  const std::string text = get(port, "/metrics").body;
  for (const char* line : {"vllm:request_success_total{model_name=\"tiny\",finished_reason=\"stop\"} 2\n",
                           "vllm:request_success_total{model_name=\"tiny\",finished_reason=\"error\"} 1\n",
                           "vllm:e2e_request_latency_seconds_count{model_name=\"tiny\"} 2\n",
                           "vllm:request_prompt_tokens_sum{model_name=\"tiny\"} 7\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  EXPECT_EQ(get(port, "/stats").json()["finished"], 3);
  stop();
}

// Inputs are the work, not requests: 8 of them wait, whether in one request or in eight.
TEST(EmbeddingQueueTest, AFullQueueIsFullOfInputs) {
  std::mutex mutex;
  std::condition_variable changed;
  bool running = false, go_on = false;
  int ended = 0;
  EmbeddingQueue queue(
      [&](const std::vector<std::vector<int64_t>>& texts) {
        std::unique_lock lock(mutex);
        running = true;
        changed.notify_all();
        changed.wait(lock, [&] { return go_on; });
        return std::vector<Embedding>(texts.size());
      },
      4, 8);
  auto submit = [&](size_t inputs) {
    queue.submit(std::vector<std::vector<int64_t>>(inputs, {1}), [&](const EmbeddingResult&) {
      std::lock_guard lock(mutex);
      ++ended;
      changed.notify_all();
    });
  };
  submit(12);  // more than may wait, but nothing is before it
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return running; });
  }
  EXPECT_THROW(submit(1), QueueFull);  // 4 of the 12 are in a batch, and 8 wait
  {
    std::lock_guard lock(mutex);
    go_on = true;
  }
  changed.notify_all();
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ended == 1; });
  }
  submit(1);
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return ended == 2; });
  EXPECT_EQ(queue.stats().finished, 2);
}

}  // namespace
}  // namespace fk
