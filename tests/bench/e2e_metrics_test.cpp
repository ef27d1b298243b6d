// Metrics of a served load are those that vLLM would print, and arrivals have the rate and the variance asked for.
#include <gtest/gtest.h>

#include <cmath>

#include "bench/e2e/arrivals.h"
#include "bench/e2e/serving_metrics.h"
#include "core/error.h"

namespace fk {
namespace {

RequestTiming request(double start, double ttft, std::vector<double> itl, double e2el, int64_t prompt, int64_t output) {
  RequestTiming r;
  r.start_s = start;
  r.ttft_s = ttft;
  r.itl_s = std::move(itl);
  r.e2el_s = e2el;
  r.prompt_tokens = prompt;
  r.output_tokens = output;
  return r;
}

// The expected numbers were computed by hand with Python's statistics.pstdev and linear interpolation.
std::vector<RequestTiming> worked_example() {
  std::vector<RequestTiming> requests = {request(0, 0.1, {0.02, 0.02, 0.05}, 0.19, 10, 4),
                                         request(0.05, 0.3, {0.03}, 0.33, 20, 2), request(0.1, 0.15, {}, 0.15, 5, 1),
                                         request(0.2, 0.25, {0.01, 0.04, 0.02, 0.02}, 0.34, 8, 5)};
  RequestTiming failed = request(0, 9, {9}, 9, 1000, 1000);
  failed.error = "the server sent no text";
  requests.push_back(failed);
  return requests;
}

void expect_distribution(const Distribution& d, double mean, double median, double std, double p99) {
  EXPECT_NEAR(d.mean, mean, 1e-9);
  EXPECT_NEAR(d.median, median, 1e-9);
  EXPECT_NEAR(d.std, std, 1e-9);
  EXPECT_NEAR(d.p99, p99, 1e-9);
}

TEST(ServingMetrics, WorkedExample) {
  ServingMetrics m = serving_metrics(worked_example(), 0.54, parse_goodput({"ttft:250", "tpot:30.5"}));
  EXPECT_EQ(m.completed, 4);
  EXPECT_EQ(m.failed, 1);
  EXPECT_EQ(m.failures.at("the server sent no text"), 1);
  EXPECT_EQ(m.input_tokens, 43);
  EXPECT_EQ(m.output_tokens, 12);
  EXPECT_NEAR(m.request_throughput, 7.407407407407407, 1e-9);
  EXPECT_NEAR(m.output_throughput, 22.22222222222222, 1e-9);
  EXPECT_NEAR(m.total_token_throughput, 101.85185185185185, 1e-9);
  EXPECT_NEAR(m.request_goodput.value(), 3 / 0.54, 1e-9);
  EXPECT_EQ(m.peak_concurrency, 3);  // at 0.1 s; at 0.2 s the first has ended
  expect_distribution(m.ttft_ms, 200, 200, 79.05694150420949, 298.5);
  expect_distribution(m.tpot_ms, 27.5, 30, 3.535533905932741, 30);
  expect_distribution(m.itl_ms, 26.25, 20, 12.183492931011205, 49.3);
  expect_distribution(m.e2el_ms, 252.5, 260, 83.7779804005802, 339.7);
}

TEST(ServingMetrics, NothingThatSucceededIsNoNumber) {
  std::vector<RequestTiming> requests(2);
  requests[0].error = requests[1].error = "x";
  ServingMetrics m = serving_metrics(requests, 0);
  EXPECT_EQ(m.failed, 2);
  EXPECT_EQ(m.request_throughput, 0);
  EXPECT_FALSE(m.request_goodput);
  for (const auto& [name, value] : metric_values(m)) EXPECT_TRUE(std::isfinite(value)) << name;
}

TEST(ServingMetrics, GoodputIsReadOrRefused) {
  EXPECT_EQ(parse_goodput({"e2el:5000"}).e2el_ms, 5000.0);
  for (const char* bad : {"ttft", "ttft:", "ttft:x", "ttft:-1", "itl:3", ":5", "ttft:1e999", "ttft:nan", "ttft:1 "})
    EXPECT_THROW(parse_goodput({bad}), UsageError) << bad;
}

// Mean and squared coefficient of variation of the gaps.
std::pair<double, double> gaps(const std::vector<double>& times) {
  double last = 0, sum = 0, squares = 0;
  for (double t : times) {
    sum += t - last;
    squares += (t - last) * (t - last);
    last = t;
  }
  auto n = static_cast<double>(times.size());
  double mean = sum / n;
  return {mean, squares / n / (mean * mean) - 1};
}

TEST(Arrivals, HaveTheirRateAndBurstiness) {
  for (double burstiness : {0.25, 1.0, 4.0}) {
    auto [mean, variation] = gaps(arrival_times({.request_rate = 20, .burstiness = burstiness}, 20000));
    EXPECT_NEAR(mean, 0.05, 1e-9) << burstiness;
    EXPECT_NEAR(variation * burstiness, 1, 0.15) << burstiness;  // the gamma distribution has 1 / shape
  }
}

TEST(Arrivals, AllAtOnceRampUpAndRefusals) {
  EXPECT_EQ(arrival_times({}, 3), (std::vector<double>{0, 0, 0}));
  std::vector<double> times =
      arrival_times({.burstiness = 1e6, .ramp_up = "linear", .start_rps = 1, .end_rps = 10}, 10);
  EXPECT_NEAR(times[0], 1, 0.01);
  EXPECT_NEAR(times[9] - times[8], 0.1, 0.01);
  EXPECT_THROW(arrival_times({.request_rate = 1, .burstiness = 0}, 3), UsageError);
  EXPECT_THROW(arrival_times({.ramp_up = "exponential", .start_rps = 1}, 3), UsageError);
}

}  // namespace
}  // namespace fk
