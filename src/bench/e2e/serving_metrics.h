// Metrics of a served load, with vLLM's definitions.
//
//   TTFT  time from sending a request to its first text that is not empty
//   ITL   gaps between the texts after it, over all requests
//   TPOT  (E2EL - TTFT) / (tokens - 1), of requests with at least two tokens
//   E2EL  time from sending a request to its last text
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

// One request as the client saw it.
struct RequestTiming {
  std::string error;   // one sentence; empty: it succeeded
  double start_s = 0;  // since the start of the load
  double ttft_s = 0;
  double e2el_s = 0;
  std::vector<double> itl_s;
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, where the server says so

  bool succeeded() const { return error.empty(); }
  std::optional<double> tpot_s() const {
    if (output_tokens < 2) return std::nullopt;
    return (e2el_s - ttft_s) / static_cast<double>(output_tokens - 1);
  }
};

// All requests of a load.
struct ServedLoad {
  std::vector<RequestTiming> requests;  // in the order given
  double duration_s = 0;
};

// As NumPy computes them: the deviation divides by the count, quantiles are interpolated linearly. All 0 without
// values.
struct Distribution {
  size_t count = 0;
  double mean = 0, median = 0, std = 0, p99 = 0;
};
Distribution distribution(std::vector<double> values);
// 0 <= q <= 1; `sorted` is not empty.
double linear_quantile(std::span<const double> sorted, double q);

// Most milliseconds that a good request may take; absent: whatever it takes.
struct Goodput {
  std::optional<double> ttft_ms, tpot_ms, e2el_ms;
  bool wanted() const { return ttft_ms || tpot_ms || e2el_ms; }
};
// Of words "ttft:200". Throws UsageError.
Goodput parse_goodput(const std::vector<std::string>& words);

struct ServingMetrics {
  int64_t completed = 0, failed = 0;
  std::map<std::string, int64_t> failures;  // by sentence
  double duration_s = 0;
  int64_t input_tokens = 0, output_tokens = 0;
  double request_throughput = 0;      // requests per second
  double output_throughput = 0;       // tokens per second
  double total_token_throughput = 0;  // likewise, prompts included
  std::optional<double> request_goodput;
  int64_t peak_concurrency = 0;
  Distribution ttft_ms, tpot_ms, itl_ms, e2el_ms;
};

// duration_s: from the first request to the end of the last.
ServingMetrics serving_metrics(std::span<const RequestTiming> requests, double duration_s, const Goodput& goodput = {});

// By vLLM's names: "request_throughput", "mean_ttft_ms", "p99_itl_ms", ...
std::vector<std::pair<std::string, double>> metric_values(const ServingMetrics& metrics);

}  // namespace fk
