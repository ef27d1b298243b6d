// Times `history` on a store of a million results.
//   history_bench [FOLDER [RUNS [RESULTS_PER_RUN]]]
// Creates FOLDER/history.db unless it exists, runs the queries of the verb and the dashboard, and runs the verb itself.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <random>

#include "track/store.h"

namespace {

using namespace fk;
namespace fs = std::filesystem;

double milliseconds(const std::function<void()>& body) {
  std::vector<double> times;
  for (int i = 0; i < 7; ++i) {
    auto begin = std::chrono::steady_clock::now();
    body();
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

constexpr int kOperators = 25;
std::string operator_name(int i) { return fmt::format("operator_{:02}", i); }

void generate(const std::string& path, int runs, int results) {
  auto store = open_store(path);
  std::mt19937 random(1);
  std::normal_distribution<double> speed(0.1, 0.2);
  int64_t start = now_us() - int64_t{runs} * 60'000'000;
  for (int r = 0; r < runs;) {
    auto batch = store->batch();  // otherwise each run would wait for the disk
    for (int until = std::min(runs, r + 500); r < until; ++r) {
      RunRecord run;
      run.started_us = start + int64_t{r} * 60'000'000;
      run.id = make_run_id(run.started_us);
      run.name = "kernels " + operator_name(r % kOperators);
      run.tier = "kernel";
      run.status = "finished";
      run.ended_us = run.started_us + 1'000'000;
      run.environment.device = "cpu";
      run.environment.cpu_name = "A CPU";
      run.environment.git_commit = fmt::format("{:040x}", r / 10);
      run.params = {{"num_runs", "100"}, {"threads", "2"}, {"cold", "false"}};
      run.tags = {{"tier", "kernel"}, {"version", "0.1.0"}};
      run.metrics = {{"avg_speedup", std::exp(speed(random))}, {"total_passed", results}, {"total_failed", 0}};
      store->begin_run(run);
      for (int i = 0; i < results; ++i) {
        KernelRecord k;
        k.run_id = run.id;
        k.op = operator_name((r + i * 7) % kOperators);
        k.scenario = fmt::format("llama-3.2-1b/tp1/decode-{}", i);
        k.models = {"llama-3.2-1b"};
        k.candidate = "abc";
        k.verdict = random() % 20 == 0 ? "INCORRECT_NUMERICAL" : "PASSED";
        if (k.passed()) {
          k.speedup = std::exp(speed(random));
          k.low = *k.speedup * 0.99;
          k.high = *k.speedup * 1.01;
          k.err_ratio = 0.25;
        }
        store->add_kernel_result(k, {});
      }
    }
    batch->commit();
    fmt::print(stderr, "\r{} of {} runs", r, runs);
  }
  fmt::print(stderr, "\n");
}

int run_verb(const std::string& program, const std::vector<std::string>& arguments) {
  std::fflush(stdout);  // the child must not print buffered output again
  pid_t child = fork();
  if (child == 0) {
    std::vector<char*> words = {const_cast<char*>(program.c_str())};
    for (const std::string& a : arguments) words.push_back(const_cast<char*>(a.c_str()));
    words.push_back(nullptr);
    if (std::freopen("/dev/null", "w", stdout) == nullptr) _exit(126);
    execv(program.c_str(), words.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder = argc > 1 ? argv[1] : "/tmp/fastkernels-history-bench", path = folder + "/history.db";
  int runs = argc > 2 ? std::atoi(argv[2]) : 20'000, results = argc > 3 ? std::atoi(argv[3]) : 50;
  fs::create_directories(folder);
  if (!fs::exists(path)) generate(path, runs, results);

  auto store = open_store_reader(path);
  RunQuery twenty, filtered, none, op;
  filtered.where = "metrics.avg_speedup > 1.3 and tags.tier = 'kernel'";
  none.where = "metrics.avg_speedup > 1000";
  RunQuery prefix;
  prefix.model = "llama";
  std::string last = store->resolve_run("last");
  fmt::print("{} runs, {:.0f} MiB\n", store->count_runs({}), static_cast<double>(fs::file_size(path)) / (1 << 20));
  auto show = [](const char* what, double ms) { fmt::print("{:44} {:9.2f} ms\n", what, ms); };
  show("open", milliseconds([&] { open_store_reader(path); }));
  show("20 newest runs", milliseconds([&] { store->runs(twenty); }));
  show("20 newest of an operator", milliseconds([&] { store->operator_history(operator_name(3), op); }));
  show("best of every operator", milliseconds([&] { store->best({}); }));
  show("20 newest that a filter selects", milliseconds([&] { store->runs(filtered); }));
  show("a filter that selects nothing", milliseconds([&] { store->runs(none); }));
  show("20 newest of a model", milliseconds([&] { store->runs(prefix); }));
  show("operators and how many runs each has", milliseconds([&] { store->operators(); }));
  show("one scenario over 20 runs", milliseconds([&] { store->scenario_history(operator_name(3), "", op); }));
  show("an abbreviated id", milliseconds([&] { store->resolve_run(last.substr(last.size() - 8)); }));
  show("results of a run", milliseconds([&] { store->kernel_results(last); }));
  std::string program = FK_BINARY_DIR "/fastkernels";
  show("fastkernels history", milliseconds([&] { run_verb(program, {"history", "--db", path}); }));
  show("fastkernels history --op", milliseconds([&] {
         run_verb(program, {"history", "--db", path, "--op", operator_name(3)});
       }));
  show("fastkernels history --best", milliseconds([&] { run_verb(program, {"history", "--db", path, "--best"}); }));
}
