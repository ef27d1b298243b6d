#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/json.h"

namespace fk {
namespace {

// vLLM's bounds, so that its dashboards show the same curves.
constexpr double kFirstToken[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25,  0.5,  0.75,
                                  1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80., 160.0, 640., 2560.};
constexpr double kPerToken[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
                                0.4,   0.5,    0.75,  1.0,  2.5,   5.0,  7.5,   10., 20.,  40., 80.};
constexpr double kRequest[] = {0.01, 0.05, 0.1, 0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,
                               15.,  20.,  30., 40.0, 50.0, 60.0, 120., 240.0, 480.0, 960.0, 1920., 7680.};
constexpr double kTokens[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};

std::string label_value(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

class Writer {
 public:
  explicit Writer(std::string_view model) : label_(fmt::format("model_name=\"{}\"", label_value(model))) {}

  void head(std::string_view name, std::string_view type, std::string_view help) {
    text += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  }
  void sample(std::string_view name, std::string_view more, double value) {
    text += fmt::format("{}{{{}{}}} {}\n", name, label_, more, value);
  }
  void one(std::string_view name, std::string_view type, std::string_view help, double value) {
    head(name, type, help);
    sample(name, "", value);
  }
  void histogram(std::string_view name, std::string_view help, const Histogram& h) {
    head(name, "histogram", help);
    uint64_t below = 0;
    std::string bucket = fmt::format("{}_bucket", name);
    for (size_t i = 0; i < h.bounds().size(); ++i) {
      below += h.counts()[i];
      sample(bucket, fmt::format(",le=\"{}\"", h.bounds()[i]), static_cast<double>(below));
    }
    sample(bucket, ",le=\"+Inf\"", static_cast<double>(h.count()));
    sample(fmt::format("{}_count", name), "", static_cast<double>(h.count()));
    sample(fmt::format("{}_sum", name), "", h.sum());
  }

  std::string text;

 private:
  std::string label_;
};

double cache_use(const EngineStats& engine) {
  return engine.blocks_total == 0 ? 0
                                  : static_cast<double>(engine.blocks_used) / static_cast<double>(engine.blocks_total);
}

Json histogram_json(const Histogram& h) {
  return {
      {"bounds", std::vector<double>(h.bounds().begin(), h.bounds().end())}, {"counts", h.counts()}, {"sum", h.sum()}};
}

}  // namespace

void Histogram::add(double value, uint64_t times) {
  if (!std::isfinite(value)) return;
  auto place = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  counts_[static_cast<size_t>(place)] += times;
  count_ += times;
  sum_ += value * static_cast<double>(times);
}

Metrics::Metrics()
    : time_to_first_token(kFirstToken),
      inter_token_latency(kPerToken),
      time_per_output_token(kPerToken),
      e2e_latency(kRequest),
      prompt_length(kTokens),
      generation_length(kTokens) {
  for (const char* reason : {"stop", "length", "abort", "error"}) finished[reason] = 0;
}

std::string Metrics::prometheus(const std::string& model, const EngineStats& engine) const {
  Writer w(model);
  auto number = [](int64_t value) { return static_cast<double>(value); };
  w.one("vllm:num_requests_running", "gauge", "Requests that run now.", number(engine.running));
  w.one("vllm:num_requests_waiting", "gauge", "Requests that wait.", number(engine.waiting));
  w.one("vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache in use; 1 is all of it.", cache_use(engine));
  w.one("vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache.",
        number(engine.prompt_tokens));
  w.one("vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.",
        number(engine.cached_prompt_tokens));
  w.one("vllm:num_preemptions_total", "counter", "Requests that gave up their cache to others and began again.",
        number(engine.preemptions));
  w.one("vllm:spec_decode_num_drafts_total", "counter", "Steps of a request with guesses of its next tokens.",
        number(engine.drafts));
  w.one("vllm:spec_decode_num_draft_tokens_total", "counter", "Guessed tokens.", number(engine.draft_tokens));
  w.one("vllm:spec_decode_num_accepted_tokens_total", "counter", "Guessed tokens that the model drew.",
        number(engine.accepted_tokens));
  w.one("vllm:prompt_tokens_total", "counter", "Prompt tokens processed.", number(engine.prompt_tokens));
  w.one("vllm:generation_tokens_total", "counter", "Tokens generated.", number(engine.generated_tokens));
  w.head("vllm:request_success_total", "counter", "Requests that ended, by reason.");
  for (const auto& [reason, count] : finished)
    w.sample("vllm:request_success_total", fmt::format(",finished_reason=\"{}\"", reason), static_cast<double>(count));
  w.histogram("vllm:time_to_first_token_seconds", "From the arrival of a request to its first token.",
              time_to_first_token);
  w.histogram("vllm:inter_token_latency_seconds", "Between two tokens of a request.", inter_token_latency);
  w.histogram("vllm:time_per_output_token_seconds", "Between two tokens of a request (the older name).",
              inter_token_latency);
  w.histogram("vllm:request_time_per_output_token_seconds", "Mean time of a token after the first, per request.",
              time_per_output_token);
  w.histogram("vllm:e2e_request_latency_seconds", "From the arrival of a request to its last token.", e2e_latency);
  w.histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", prompt_length);
  w.histogram("vllm:request_generation_tokens", "Generated tokens of a request.", generation_length);
  w.one("fastkernels:engine_steps_total", "counter", "Steps of the engine.", number(engine.steps));
  w.one("fastkernels:engine_compiled_steps_total", "counter",
        "Of these, steps that a plan ran in the place of the tree.", number(engine.compiled_steps));
  w.one("fastkernels:engine_step_seconds_total", "counter", "Time of all steps.", engine.step_seconds);
  w.one("fastkernels:engine_host_seconds_total", "counter", "Of these, planning, sampling on the host and output.",
        engine.host_seconds);
  w.one("fastkernels:http_open_connections", "gauge", "Connections that are open now.", number(open_connections));
  w.one("fastkernels:http_client_gone_total", "counter", "Requests to the model whose client left before the end.",
        static_cast<double>(client_gone));
  w.head("fastkernels:http_requests_total", "counter", "Answers by path and status.");
  for (const auto& [key, count] : answers)
    w.sample("fastkernels:http_requests_total",
             fmt::format(",path=\"{}\",status=\"{}\"", label_value(key.first), key.second), static_cast<double>(count));
  return std::move(w.text);
}

Json Metrics::live(const std::string& model, const EngineStats& engine) const {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return {{"model", model},
          {"time_s", std::chrono::duration<double>(now).count()},
          {"running", engine.running},
          {"waiting", engine.waiting},
          {"cache_use", cache_use(engine)},
          {"prompt_tokens", engine.prompt_tokens},
          {"cached_prompt_tokens", engine.cached_prompt_tokens},
          {"generated_tokens", engine.generated_tokens},
          {"draft_tokens", engine.draft_tokens},
          {"accepted_tokens", engine.accepted_tokens},
          {"finished", engine.finished},
          {"steps", engine.steps},
          {"step_seconds", engine.step_seconds},
          {"connections", open_connections},
          {"time_to_first_token", histogram_json(time_to_first_token)},
          {"inter_token_latency", histogram_json(inter_token_latency)},
          {"e2e_latency", histogram_json(e2e_latency)}};
}

}  // namespace fk
