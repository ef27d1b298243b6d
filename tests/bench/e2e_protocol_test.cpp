// Streams of servers are read whatever the pieces are, and what servers say is understood.
#include <gtest/gtest.h>

#include "bench/e2e/openai_protocol.h"
#include "bench/e2e/sse_parser.h"
#include "core/error.h"

namespace fk {
namespace {

TEST(SseParser, EventsDoNotDependOnThePieces) {
  const std::string stream =
      "\xEF\xBB\xBF"
      ": comment\n\ndata: {\"a\":\"\xC3\xA9\"}\n\nevent: x\r\ndata:one\r\ndata:  two\r\n\r\nid: 7\rdata\r\rdata: "
      "[DONE]\n\n";
  const std::vector<std::string> expected = {"{\"a\":\"\xC3\xA9\"}", "one\n two", "", "[DONE]"};
  for (size_t cut = 0; cut <= stream.size(); ++cut) {
    for (size_t second = cut; second <= stream.size(); second += 7) {
      SseParser parser;
      std::vector<std::string> events;
      auto take = [&](std::string_view data) { events.emplace_back(data); };
      parser.feed(stream.substr(0, cut), take);
      parser.feed(stream.substr(cut, second - cut), take);
      parser.feed(stream.substr(second), take);
      ASSERT_EQ(events, expected) << cut << " " << second;
      ASSERT_FALSE(parser.incomplete());
    }
  }
}

TEST(SseParser, AStreamThatIsCutOffIsIncomplete) {
  SseParser parser;
  parser.feed("data: x\n", [](std::string_view) { FAIL(); });
  EXPECT_TRUE(parser.incomplete());
}

TEST(OpenAiProtocol, EventsOfBothEndpoints) {
  EXPECT_EQ(read_stream_event(R"({"choices":[{"text":"ab"}]})").text, "ab");
  EXPECT_EQ(read_stream_event(R"({"choices":[{"delta":{"role":"assistant","content":null}}],"usage":null})").text, "");
  EXPECT_EQ(read_stream_event(R"({"choices":[{"delta":{"content":"c"}}]})").text, "c");
  StreamEvent usage = read_stream_event(
      R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}})");
  EXPECT_EQ(usage.prompt_tokens, 7);
  EXPECT_EQ(usage.completion_tokens, 3);
  EXPECT_EQ(usage.cached_tokens, 4);
  EXPECT_TRUE(read_stream_event("[DONE]").done);
  EXPECT_EQ(read_stream_event(R"({"error":{"message":"too long"}})").error, "too long");
  EXPECT_NE(read_stream_event("<html>").error, "");
  EXPECT_NE(read_stream_event("[1]").error, "");
}

TEST(OpenAiProtocol, BodiesAndAnswers) {
  BenchRequest ids;
  ids.prompt_tokens = {1, 2};
  ids.output_len = 5;
  CompletionStyle style;
  style.model = "m";
  EXPECT_EQ(completion_body(ids, style),
            R"({"model":"m","prompt":[1,2],"max_tokens":5,"temperature":0.0,"stream":true,)"
            R"("stream_options":{"include_usage":true}})");
  style.endpoint = "/v1/chat/completions";
  EXPECT_THROW(completion_body(ids, style), UsageError);
  EXPECT_EQ(error_sentence(R"({"error":{"message":"no such model"}})"), "no such model");
  EXPECT_EQ(error_sentence("Bad\nGateway"), "Bad Gateway");
  EXPECT_EQ(first_model(R"({"data":[{"id":"tiny"}]})"), "tiny");
  EXPECT_EQ(first_model("{}"), "");
}

TEST(OpenAiProtocol, Addresses) {
  ServerAddress a = parse_base_url("http://localhost:8000/api/");
  EXPECT_EQ(a.host + "|" + a.port + "|" + a.prefix, "localhost|8000|/api");
  a = parse_base_url("http://[::1]:99");
  EXPECT_EQ(a.host + "|" + a.port + "|" + a.prefix, "::1|99|");
  EXPECT_EQ(parse_base_url("http://h").port, "80");
  for (const char* bad : {"", "localhost:8000", "http://", "http://h:", "http://h:x", "https://h", "http://:8000"})
    EXPECT_THROW(parse_base_url(bad), UsageError) << bad;
}

TEST(Prometheus, SumsAMetricOverItsLabels) {
  const std::string text =
      "# HELP vllm:drafts_total Steps.\n# TYPE vllm:drafts_total counter\nvllm:drafts_total{model_name=\"a}b\"} 12\n"
      "vllm:drafts_total{model_name=\"c\"} 1.5e1\nvllm:drafts_total_more 9\nplain 4\nbroken x";
  EXPECT_EQ(prometheus_sum(text, "vllm:drafts_total"), 27);
  EXPECT_EQ(prometheus_sum(text, "plain"), 4);
  EXPECT_EQ(prometheus_sum(text, "broken"), std::nullopt);
  EXPECT_EQ(prometheus_sum(text, "absent"), std::nullopt);
  EXPECT_EQ(prometheus_sum("", "absent"), std::nullopt);
}

}  // namespace
}  // namespace fk
