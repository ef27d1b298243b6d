// What an OpenAI-compatible server is asked and what it answers, as text: bodies of requests and events of streams.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bench/e2e/dataset.h"

namespace fk {

struct CompletionStyle {
  std::string endpoint = "/v1/completions";  // one that ends in chat/completions gets messages instead of a prompt
  std::string model;
  double temperature = 0;
  bool ignore_eos = false;  // sent only where it is true: not every server knows it

  bool chat() const { return endpoint.ends_with("chat/completions"); }
};

// Asks for a stream with the numbers of tokens at its end. A prompt without text is sent as token ids; a chat needs
// text.
std::string completion_body(const BenchRequest& request, const CompletionStyle& style);

// One event of the stream.
struct StreamEvent {
  bool done = false;  // "[DONE]"
  std::string text;   // may be empty
  std::string error;  // the server's sentence, or why the event cannot be read
  std::optional<int64_t> prompt_tokens, completion_tokens, cached_tokens;
};
StreamEvent read_stream_event(std::string_view data);

// The sentence in the body of an answer that is an error; its first words where it has another form.
std::string error_sentence(std::string_view body);

// The first name in the answer of /v1/models; empty if there is none.
std::string first_model(std::string_view body);

// The sum over all labels of a metric in Prometheus text; none where it has no such metric.
std::optional<double> prometheus_sum(std::string_view text, std::string_view name);

struct ServerAddress {
  std::string host, port;
  std::string prefix;  // of the path: "/api" in http://host/api
};
// "http://127.0.0.1:8000". Throws UsageError for anything else; without a port it is 80.
ServerAddress parse_base_url(const std::string& url);

}  // namespace fk
