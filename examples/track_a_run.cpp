// Stores a run in the history of fastkernels and queries it: the tracking API on one page.
//
//   build/cpu-release/examples/track_a_run && build/cpu-release/fastkernels history show last
#include <fastkernels/tracking.h>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <vector>

namespace {

// Something to measure: sums of rows, plain and by four accumulators.
double time_ns(float (*sum)(const std::vector<float>&), const std::vector<float>& row) {
  auto begin = std::chrono::steady_clock::now();
  float kept = 0;
  for (int i = 0; i < 200; ++i) kept += sum(row);
  auto took = std::chrono::steady_clock::now() - begin;
  if (kept < 0) std::puts("impossible");  // keeps the sums from being optimised away
  return std::chrono::duration<double, std::nano>(took).count() / 200;
}

float plain(const std::vector<float>& row) {
  float sum = 0;
  for (float x : row) sum += x;
  return sum;
}

float four_lanes(const std::vector<float>& row) {
  float sums[4] = {};
  for (size_t i = 0; i + 4 <= row.size(); i += 4)
    for (size_t j = 0; j < 4; ++j) sums[j] += row[i + j];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

}  // namespace

int main() {
  namespace tracking = fk::tracking;
  {
    tracking::Run run = tracking::start_run("example: row sums", {{"width", "4096"}}, {{"tier", "kernel"}});
    run.log_kernel("row_sum", 1, "float sums[4]; // four lanes\n");
    std::vector<float> row(4096, 0.5f);
    for (int step = 0; step < 3; ++step) {
      double before = time_ns(plain, row), after = time_ns(four_lanes, row);
      run.log_metrics({{"plain_ns", before}, {"lanes_ns", after}}, step);
      if (step < 2) continue;
      tracking::KernelBenchResult result;
      result.op = "row_sum";
      result.scenario = "width-4096";
      result.dtype = "f32";
      result.baseline_ns = before;
      result.candidate_ns = after;
      result.speedup = before / after;
      run.log_kernel_bench(result);
    }
  }  // the run ends here
  try {
    for (const tracking::FoundRun& run : tracking::query_runs("fastkernels", "metrics.row_sum_passed = 1", 1))
      std::printf("%s %s: row_sum_avg_speedup %.2f\n", run.id.c_str(), run.status.c_str(),
                  run.metrics.at("row_sum_avg_speedup"));
  } catch (const std::runtime_error& e) {  // no history: queries throw, logging does not
    std::printf("%s\n", e.what());
  }
}
