#include "bench/e2e/serving_metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "core/check.h"
#include "core/error.h"

namespace fk {
namespace {

constexpr double kMsPerSecond = 1e3;

bool is_good(const RequestTiming& r, const Goodput& goodput) {
  auto within = [](double seconds, const std::optional<double>& most_ms) {
    return !most_ms || seconds * kMsPerSecond <= *most_ms;
  };
  return within(r.ttft_s, goodput.ttft_ms) && within(r.tpot_s().value_or(0), goodput.tpot_ms) &&
         within(r.e2el_s, goodput.e2el_ms);
}

int64_t most_at_once(std::span<const RequestTiming> requests) {
  std::vector<std::pair<double, int>> events;  // an end sorts before a start at the same time
  for (const RequestTiming& r : requests) {
    if (!r.succeeded()) continue;
    events.emplace_back(r.start_s, 1);
    events.emplace_back(r.start_s + r.e2el_s, -1);
  }
  std::sort(events.begin(), events.end());
  int64_t now = 0, most = 0;
  for (auto [time, change] : events) most = std::max(most, now += change);
  return most;
}

}  // namespace

double linear_quantile(std::span<const double> sorted, double q) {
  FK_CHECK(!sorted.empty() && q >= 0 && q <= 1);
  double at = q * static_cast<double>(sorted.size() - 1);
  auto below = static_cast<size_t>(std::floor(at));
  size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Distribution distribution(std::vector<double> values) {
  Distribution d;
  d.count = values.size();
  if (values.empty()) return d;
  auto count = static_cast<double>(values.size());
  std::sort(values.begin(), values.end());
  d.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (double v : values) squares += (v - d.mean) * (v - d.mean);
  d.std = std::sqrt(squares / count);
  d.median = linear_quantile(values, 0.5);
  d.p99 = linear_quantile(values, 0.99);
  return d;
}

Goodput parse_goodput(const std::vector<std::string>& words) {
  Goodput goodput;
  for (const std::string& word : words) {
    size_t colon = word.find(':');
    std::string name = word.substr(0, colon);
    std::string_view number = colon == word.npos ? std::string_view() : std::string_view(word).substr(colon + 1);
    double ms = 0;
    auto [end, status] = std::from_chars(number.data(), number.data() + number.size(), ms);
    if (number.empty() || status != std::errc() || end != number.data() + number.size() || !(ms >= 0) ||
        !std::isfinite(ms))
      throw UsageError("--goodput takes a metric and its most milliseconds, as ttft:200 tpot:50, not '{}'.", word);
    if (name == "ttft")
      goodput.ttft_ms = ms;
    else if (name == "tpot")
      goodput.tpot_ms = ms;
    else if (name == "e2el")
      goodput.e2el_ms = ms;
    else
      throw UsageError("--goodput knows ttft, tpot and e2el, not '{}'.", name);
  }
  return goodput;
}

ServingMetrics serving_metrics(std::span<const RequestTiming> requests, double duration_s, const Goodput& goodput) {
  ServingMetrics m;
  m.duration_s = duration_s;
  int64_t good = 0;
  std::vector<double> ttft, tpot, itl, e2el;
  for (const RequestTiming& r : requests) {
    if (!r.succeeded()) {
      ++m.failed;
      ++m.failures[r.error];
      continue;
    }
    ++m.completed;
    m.input_tokens += r.prompt_tokens;
    m.output_tokens += r.output_tokens;
    ttft.push_back(r.ttft_s * kMsPerSecond);
    e2el.push_back(r.e2el_s * kMsPerSecond);
    if (std::optional<double> per_token = r.tpot_s()) tpot.push_back(*per_token * kMsPerSecond);
    for (double gap : r.itl_s) itl.push_back(gap * kMsPerSecond);
    if (is_good(r, goodput)) ++good;
  }
  auto rate = [&](int64_t count) { return duration_s > 0 ? static_cast<double>(count) / duration_s : 0; };
  m.request_throughput = rate(m.completed);
  m.output_throughput = rate(m.output_tokens);
  m.total_token_throughput = rate(m.input_tokens + m.output_tokens);
  if (goodput.wanted()) m.request_goodput = rate(good);
  m.peak_concurrency = most_at_once(requests);
  m.ttft_ms = distribution(std::move(ttft));
  m.tpot_ms = distribution(std::move(tpot));
  m.itl_ms = distribution(std::move(itl));
  m.e2el_ms = distribution(std::move(e2el));
  return m;
}

std::vector<std::pair<std::string, double>> metric_values(const ServingMetrics& m) {
  std::vector<std::pair<std::string, double>> values = {
      {"completed", static_cast<double>(m.completed)},
      {"failed", static_cast<double>(m.failed)},
      {"duration", m.duration_s},
      {"total_input_tokens", static_cast<double>(m.input_tokens)},
      {"total_output_tokens", static_cast<double>(m.output_tokens)},
      {"request_throughput", m.request_throughput},
      {"output_throughput", m.output_throughput},
      {"total_token_throughput", m.total_token_throughput},
      {"max_concurrent_requests", static_cast<double>(m.peak_concurrency)}};
  if (m.request_goodput) values.emplace_back("request_goodput", *m.request_goodput);
  auto add = [&](const std::string& name, const Distribution& d) {
    if (d.count == 0) return;
    values.emplace_back("mean_" + name, d.mean);
    values.emplace_back("median_" + name, d.median);
    values.emplace_back("std_" + name, d.std);
    values.emplace_back("p99_" + name, d.p99);
  };
  add("ttft_ms", m.ttft_ms);
  add("tpot_ms", m.tpot_ms);
  add("itl_ms", m.itl_ms);
  add("e2el_ms", m.e2el_ms);
  return values;
}

}  // namespace fk
