// Sends a load to an OpenAI-compatible server, every request as a stream, and notes when the tokens come.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/e2e/openai_protocol.h"
#include "bench/e2e/serving_metrics.h"

namespace fk {

struct ClientOptions {
  ServerAddress server;
  CompletionStyle style;
  std::string api_key;          // sent as a bearer token unless empty
  int64_t max_concurrency = 0;  // requests at once; 0: no limit. A request that must wait is sent, and timed, later
  double timeout_s = 6 * 3600;  // of one request
  std::function<void(int64_t ended)> progress = {};
};

// One thread serves all requests. `arrivals_s`: when each is sent, in seconds after the start. Requests that fail have
// their sentence; throws Error only where the server's name has no address.
ServedLoad send_load(const ClientOptions& options, const std::vector<BenchRequest>& requests,
                     const std::vector<double>& arrivals_s);

// The first model that the server names. Throws Error where it does not answer.
std::string ask_model(const ServerAddress& server, const std::string& api_key);

// What /metrics of the server says since it started: about guessed tokens, under vLLM's names, and where it is ours
// about its steps. None where it does not have the former.
struct ServerCounts {
  int64_t drafts = 0, draft_tokens = 0, accepted_tokens = 0;
  int64_t steps = 0, compiled_steps = 0;  // the second: those that plans ran
};
std::optional<ServerCounts> ask_server_counts(const ServerAddress& server, const std::string& api_key);

}  // namespace fk
