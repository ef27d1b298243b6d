#include "tests/web/sample_history.h"

#include <fmt/format.h>

#include <cmath>
#include <random>

namespace fk {
namespace {

constexpr int64_t kHourUs = 3'600'000'000;

struct Operator {
  const char* name;
  int level;
  double bytes, flops;    // of one token
  double start, per_run;  // speed-up, and how it grows
  double floor_share;
};

constexpr Operator kOperators[] = {
    {"rms_norm", 1, 8192, 8192, 1.15, 0.012, 0.42},
    {"silu_and_mul", 1, 49152, 81920, 1.42, 0.004, 0.61},
    {"softmax", 1, 16384, 40960, 1.9, 0.02, 0.35},
    {"llama_mlp", 2, 100.7e6, 2.0e8, 1.03, 0.001, 0.83},
};
constexpr const char* kModels[] = {"llama-3.2-1b", "llama31-8b", "qwen3-0.6b"};
constexpr int kTokens[] = {1, 8, 32, 128, 512};

class Maker {
 public:
  explicit Maker(Store& store) : store_(store), random_(7) {}

  double noise(double spread) { return std::exp(std::normal_distribution<double>(0, spread)(random_)); }

  RunRecord run(const std::string& name, const std::string& tier, int64_t started_us, int number) {
    RunRecord r;
    r.id = fmt::format("{}-{:08x}", id_time(started_us), static_cast<uint32_t>(random_()));
    r.name = name;
    r.tier = tier;
    r.started_us = started_us;
    Environment& e = r.environment;
    e.git_commit = fmt::format("{:08x}{:032x}", static_cast<uint32_t>(0x9e3779b9u * (number / 2 + 3)), number / 2);
    e.git_branch = "main";
    e.git_dirty = number % 7 == 3;
    e.host = "workstation";
    e.device = "cpu";
    e.cpu_name = "Intel(R) Xeon(R) Processor";
    e.details = {{"cpu", {{"cores", 2}, {"instructions", {"avx2", "avx512", "amx_bf16"}}}},
                 {"system", {{"os", "Debian GNU/Linux 12 (bookworm)"}, {"kernel", "Linux 6.1.0"}}},
                 {"compiler", "g++ 12.2.0"},
                 {"load", {{"one_minute", 0.4}}}};
    r.params = {{"threads", "2"}, {"num_runs", "100"}, {"launches", "10"}, {"cxxflags", number % 5 == 0 ? "-O2" : ""}};
    r.tags = {{"tier", tier}};
    return r;
  }

  static std::string id_time(int64_t us) {
    std::string text = utc_text(us);  // "2026-11-15 07:32:28"
    std::string digits;
    for (char c : text)
      if (c == ' ')
        digits += '-';
      else if (c != '-' && c != ':')
        digits += c;
    return fmt::format("{}-{:06}", digits, us % 1'000'000);
  }

  void kernel_result(const RunRecord& run, const Operator& op, const std::string& model, int tokens, double speedup,
                     const std::string& candidate, int samples, const std::string& verdict,
                     const std::string& sentence) {
    KernelRecord k;
    k.run_id = run.id;
    k.started_us = run.started_us;
    k.op = op.name;
    k.level = op.level;
    k.scenario = fmt::format("{}/tp1/{}-{}/layer", model, tokens >= 128 ? "prefill" : "decode", tokens);
    k.models = {model};
    k.tokens = tokens;
    k.dtype = "bf16";
    k.candidate = candidate;
    k.verdict = verdict;
    k.sentence = sentence;
    k.bytes = op.bytes * (op.level == 1 ? tokens : 1 + tokens * 1e-3);
    (op.level == 1 ? k.vector_flops : k.matrix_flops) = op.flops * tokens;
    k.seconds = 1.7;
    KernelDetail d;
    d.samples = d.control_samples = Json::array();
    d.detail = {
        {"explanation", fmt::format("{} {}: at least {:.3f} MB moved.\n  Achieved what it achieved.\n", k.op,
                                    k.scenario, k.bytes * 1e-6)},
        {"judgement", {{"sentence", "31 calls, 33 tensors and 499712 elements compared."}}},
        {"timing",
         {{"protections",
           {{{"name", "landlock"}, {"on", true}, {"why", ""}}, {{"name", "seccomp"}, {"on", true}, {"why", ""}}}}}}};
    k.err_ratio = verdict == "INCORRECT_NUMERICAL" ? 37.5 : 0.2 + 0.1 * (tokens % 5) + 0.05 * noise(0.3);
    if (k.passed()) {
      k.floor_ns = k.bytes / 30 + k.vector_flops / 200 + k.matrix_flops / 2000;
      k.candidate_ns = (*k.floor_ns / op.floor_share + 900) * noise(0.01);
      k.baseline_ns = *k.candidate_ns * speedup;
      k.of_floor = *k.floor_ns / *k.candidate_ns;
      k.speedup = speedup;
      k.low = speedup * 0.985;
      k.high = speedup * 1.014;
      k.delta = 0.02;
      k.confirmed = speedup > 1.03 ? "yes" : "";
      k.control_error = 0.004 * noise(0.5);
      k.speed_verdict = *k.low > 1.02 ? "FASTER" : *k.high < 0.98 ? "SLOWER" : "SAME";
      for (Json* list : {&d.samples, &d.control_samples}) {
        bool control = list == &d.control_samples;
        bool all_dropped = candidate == kHostileName;
        for (int launch = 0; launch < (samples > 0 ? 10 : 0); ++launch) {
          Json pairs = Json::array();
          double shift = noise(0.01);
          for (int i = 0; i < samples / 10; ++i) {
            double a = *k.baseline_ns * shift * noise(0.03),
                   b = (control ? *k.baseline_ns : *k.candidate_ns) * shift * noise(0.03);
            pairs.push_back({a, b, all_dropped ? "steal time" : i == 3 && launch == 2 ? "context switch" : "kept"});
          }
          list->push_back(std::move(pairs));
        }
      }
    } else {
      if (verdict == "INCORRECT_NUMERICAL") d.detail["mismatch"] = mismatch();
      d.detail["repro"] = fmt::format("fastkernels kernels --target {} --filter {} --repro 42:7", k.op, k.scenario);
    }
    store_.add_kernel_result(k, d);
  }

  // Where elements are wrong: the last columns of every row, and a few rows whole.
  static Json mismatch() {
    Json grid = Json::array();
    for (int row = 0; row < 24; ++row) {
      Json shares = Json::array();
      for (int column = 0; column < 32; ++column) shares.push_back(column > 29 ? 1.0 : row % 8 == 3 ? 0.25 : 0.0);
      grid.push_back(std::move(shares));
    }
    return {{"output", "out"},
            {"rows", 512},
            {"cols", 2048},
            {"grid", grid},
            {"pattern", "The last columns of each row are wrong."}};
  }

  void finish(const RunRecord& run, const std::map<std::string, double>& metrics,
              const std::string& status = "finished", const std::string& error = "") {
    std::vector<MetricPoint> points;
    for (const auto& [key, value] : metrics) points.push_back({key, value, 0, run.started_us});
    store_.log_metrics(run.id, points);
    store_.end_run(run.id, status, error, run.started_us + 95'000'000);
  }

  Store& store() { return store_; }

 private:
  Store& store_;
  std::mt19937_64 random_;
};

std::string source_text(const std::string& op, int version) {
  return fmt::format(
      R"(// A candidate for {0}, version {1}.
#include <fastkernels/candidate.h>

#include <cmath>

namespace {{

constexpr int kLanes = {2};  // one vector of floats

// Sums of squares in four chains, so that additions do not wait for each other.
float sum_of_squares(const float* x, int64_t n) {{
  float sums[4] = {{}};
  for (int64_t i = 0; i + 3 < n; i += 4)
    for (int c = 0; c < 4; ++c) sums[c] += x[i + c] * x[i + c];
  return {3};
}}

}}  // namespace

const char* kName = "{0}";
)",
      op, version, version % 2 == 0 ? 8 : 16,
      version > 1 ? "(sums[0] + sums[1]) + (sums[2] + sums[3])" : "sums[0] + sums[1] + sums[2] + sums[3]");
}

void kernel_run(Maker& make, const SampleHistory& what, int number, int64_t started_us) {
  bool newest = number == what.runs - 1;
  RunRecord run = make.run(number % 6 == 0 ? "kernels nightly" : "kernels", "kernel", started_us, number);
  make.store().begin_run(run);
  int passed = 0, failed = 0;
  double logs = 0;
  std::map<std::string, double> metrics;
  for (const Operator& op : kOperators) {
    int version = number * 3 / std::max(1, what.runs);
    std::string candidate = fmt::format("{}-v{}", op.name, version);
    bool fell = std::string(op.name) == "silu_and_mul" && number >= what.runs - 4;
    bool broke = std::string(op.name) == "softmax" && newest;
    double level = (op.start + op.per_run * number) * (fell ? 0.83 : 1);
    double sum = 0;
    int count = 0;
    for (const char* model : kModels)
      for (int tokens : kTokens) {
        double speedup = level * (1 + 0.06 * std::log2(1 + tokens) / 9) * make.noise(0.006);
        bool wrong = broke && tokens == 512;
        make.kernel_result(
            run, op, model, tokens, speedup, candidate, number >= what.runs - 3 ? what.samples : 0,
            wrong ? "INCORRECT_NUMERICAL" : "PASSED",
            wrong ? "Element [3, 17] is 0.25 and should be 0.125; the error is 37.5 times what is allowed." : "");
        wrong ? ++failed : ++passed;
        if (!wrong) sum += std::log(speedup), ++count;
      }
    ArtifactRecord source =
        make.store().add_artifact(run.id, fmt::format("kernels/{}.cpp", op.name), source_text(op.name, version));
    for (OperatorRecord& o : make.store().operator_results(run.id))
      if (o.op == op.name) {
        o.source_sha256 = source.sha256;
        make.store().set_operator(o);
      }
    metrics[fmt::format("{}_avg_speedup", op.name)] = std::exp(sum / count);
    logs += sum / count;
  }
  make.store().add_artifact(run.id, "logs/build.txt", "g++ -O3 -shared rms_norm.cpp\n");
  metrics["avg_speedup"] = std::exp(logs / static_cast<double>(std::size(kOperators)));
  metrics["total_passed"] = passed;
  metrics["total_failed"] = failed;
  make.finish(run, metrics, failed ? "failed" : "finished",
              failed ? "3 scenarios of softmax are wrong; `fastkernels kernels --explain` shows where." : "");
}

void ttft_run(Maker& make, int number, int64_t started_us) {
  RunRecord run = make.run("ttft ur-test", "ttft", started_us, number);
  run.mode = "ur-test";
  make.store().begin_run(run);
  double last_ttft = 0, last_tpot = 0;
  for (const char* model : {"llama-3.2-1b", "qwen3-0.6b"}) {
    double size = std::string(model) == "qwen3-0.6b" ? 0.55 : 1;
    auto add = [&](const std::string& path, double factor, std::optional<int64_t> budget, const std::string& error) {
      TtftRecord t;
      t.run_id = run.id;
      t.path = path;
      t.model = t.model_key = model;
      t.device = "cpu";
      t.dtype = "bf16";
      t.threads = 2;
      t.prompt_tokens = 512;
      t.decode_tokens = 16;
      t.iters = 5;
      t.search_iters = budget;
      t.error = error;
      if (error.empty()) {
        Json prefill = Json::array(), decode = Json::array();
        for (int i = 0; i < 5; ++i) {
          prefill.push_back(1338 * size * factor * make.noise(0.01));
          decode.push_back(100.9 * size * factor * make.noise(0.01));
        }
        t.ttft_ms = last_ttft = 1338 * size * factor * make.noise(0.004);
        t.tpot_ms = last_tpot = 100.9 * size * factor * make.noise(0.004);
        t.throughput_tps = 1000 / *t.tpot_ms;
        t.decode_floor_share = 0.85 / factor * 0.9;
        t.peak_memory_bytes = static_cast<int64_t>(2.4e9 * size);
        t.samples = {{"prefill", prefill}, {"decode", decode}};
        if (path != "eager")
          t.details["outputs"] = {
              {"reference", "eager"}, {"equal", path != "torch_compile"}, {"text", "the same 16 greedy tokens"}};
        if (path == "torch_compile") t.details["outputs"]["first_difference"] = {{"step", 6}};
        if (budget) {
          t.compile_ms = 900.0 * static_cast<double>(*budget) * size * make.noise(0.02);
          t.details["phases"] = {
              {"find_ms", 0.1 * *t.compile_ms}, {"compile_ms", 0.5 * *t.compile_ms}, {"trial_ms", 0.3 * *t.compile_ms}};
          t.details["spread"]["tpot"] = 0.013;
        }
      } else {
        t.peak_memory_bytes = int64_t{2254857830};
        t.details["failure"] = {{"exit_code", nullptr},
                                {"signal", "SIGKILL"},
                                {"timed_out", false},
                                {"out_of_memory", true},
                                {"stage", "loading the model"},
                                {"stderr_tail", "tensor 81 of 146\n<b>not bold</b>\n"},
                                {"peak_memory_bytes", *t.peak_memory_bytes},
                                {"seconds", 7.5}};
      }
      make.store().add_ttft_result(t);
    };
    double better = 1 - 0.01 * number;
    add("eager", 1, {}, "");
    add("candidate", 0.93 * better, {}, "");
    for (int64_t budget : {10, 100, 500})
      add("compiled", better * (1 - 0.06 * std::log10(static_cast<double>(budget))), budget, "");
    add("torch_compile", 1.3, {}, number % 3 == 1 ? "Killed by signal 9 while loading; 2.1 GiB were in use." : "");
  }
  make.finish(run, {{"ttft_ms", last_ttft}, {"tpot_ms", last_tpot}});
}

// A server under three loads, and a comparison of an engine with candidates and without.
void e2e_runs(Maker& make, int64_t started_us) {
  auto percentiles = [](double ms) {
    Json list = Json::array();
    for (int i = 0; i <= 100; ++i) list.push_back(ms * (0.5 + 0.01 * i + (i > 98 ? 3 : 0)));
    return Json{{"ttft_ms", list}, {"itl_ms", list}, {"e2el_ms", list}};
  };
  auto add = [&](const std::string& name, int number, const Json& result,
                 const std::map<std::string, double>& metrics) {
    RunRecord run = make.run(name, "e2e", started_us + number * 1'000'000, 70 + number);
    run.mode = result["type"];
    make.store().begin_run(run);
    make.store().add_artifact(run.id, "results/e2e.json", result.dump());
    make.finish(run, metrics);
  };
  Json serve = {{"type", "serve"}, {"loads", Json::array()}};
  for (int at_once : {1, 4, 16})
    serve["loads"].push_back({{"request_rate", "inf"},
                              {"max_concurrency", at_once},
                              {"failed", 0},
                              {"request_throughput", at_once},
                              {"output_throughput", 100.0 * at_once / (1 + 0.1 * at_once)},
                              {"mean_ttft_ms", 20.0 * at_once},
                              {"mean_e2el_ms", 200.0 + 40 * at_once},
                              {"percentiles", percentiles(10 + at_once)}});
  add("e2e serve tiny-llama", 0, serve, {{"output_throughput", 615.4}, {"mean_ttft_ms", 320}});

  Json step = Json::array();
  step.push_back({{"operator", "llama_for_causal_lm"},
                  {"implementation", "composed"},
                  {"path", ""},
                  {"depth", 0},
                  {"start_ms", 0},
                  {"duration_ms", 8}});
  for (int i = 0; i < 4; ++i)
    step.push_back({{"operator", i % 2 == 0 ? "linear" : "rms_norm"},
                    {"implementation", "cpu"},
                    {"path", fmt::format("layers.{}", i)},
                    {"depth", 1},
                    {"start_ms", 2 * i},
                    {"duration_ms", 1.5}});
  Json shares = Json::array();
  for (auto [op, share] : {std::pair("linear", 0.7), std::pair("rms_norm", 0.1)})
    shares.push_back({{"operator", op},
                      {"implementation", "cpu"},
                      {"calls", 2},
                      {"own_ms", 80 * share},
                      {"inclusive_ms", 80 * share},
                      {"share", share}});
  Json attribution = {{"load_ms", 80}, {"rest", 0.2}, {"operators", shares}, {"step", step}};
  Json gain = {{"speedup", 1.024}, {"speedup_low", 1.02}, {"speedup_high", 1.03}, {"verdict", "FASTER"}};
  Json compare = {
      {"type", "throughput"},
      {"mode", "compare"},
      {"comparison", {{"gain", gain}}},
      {"baseline", {{"percentiles", percentiles(12)}}},
      {"candidate", {{"percentiles", percentiles(11)}}},
      {"attribution", {{"baseline", attribution}, {"candidate", attribution}}},
      {"gains",
       Json::array(
           {{{"operator", "rms_norm"}, {"share", 0.1}, {"alone", 1.3}, {"in_model", 1.3}, {"expected", 1.024}}})},
      {"expected_speedup", 1.024}};
  add("e2e throughput tiny-llama", 1, compare, {{"tokens_per_second", 1234}, {"throughput_speedup", 1.024}});
}

// Two items of which one is valid.
void eval_run(Maker& make, int64_t started_us) {
  auto workload = [](const char* name, const char* unit, double speedup, bool aligned) {
    return Json{{"workload", name},
                {"kind", unit[0] == 'm' ? "latency" : "throughput"},
                {"unit", unit},
                {"baseline", 100.0},
                {"candidate", 100.0 * speedup},
                {"speedup", speedup},
                {"low", speedup - 0.01},
                {"high", speedup + 0.01},
                {"verdict", "FASTER"},
                {"control_error", 0.002},
                {"aligned", aligned},
                {"reason", aligned ? "" : "7 of 64 positions differ by more than 0.03"}};
  };
  Json items = Json::array();
  for (bool valid : {true, false})
    items.push_back(
        {{"name", valid ? "tiny-llama_tp1" : "tiny-llama_tp2"},
         {"model", "tiny-llama"},
         {"tp", valid ? 1 : 2},
         {"category", "llm"},
         {"status", "ok"},
         {"valid", valid},
         {"aligned", valid ? 2 : 1},
         {"checks", 2},
         {"agreement", 0.99},
         {"throughput_speedup", 1.2},
         {"latency_speedup", 1.1},
         {"blended_speedup", 1.149},
         {"error", ""},
         {"stage", ""},
         {"workloads", {workload("balanced", "tokens/s", 1.2, valid), workload("single-request", "ms", 1.1, true)}}});
  Json score = {{"macro_score", 0.43}, {"macro_speedup", 1.149}, {"macro_correctness", 0.75}, {"macro_coverage", 0.5}};
  RunRecord run = make.run("eval tiny-llama", "eval", started_us, 75);
  make.store().begin_run(run);
  Json notes = Json::array({"tiny-llama_tp1: the workloads have 1/4 of their lengths."});
  make.store().add_artifact(run.id, "results/eval.json",
                            Json{{"items", items}, {"score", score}, {"notes", notes}}.dump());
  make.finish(run, {{"macro_score", 0.43}, {"macro_speedup", 1.149}});
}

void hostile_run(Maker& make, int64_t started_us) {
  RunRecord run = make.run(kHostileName, "kernel", started_us, 99);
  run.tags["note"] = "<img src=x onerror=alert(1)>";
  run.params["cxxflags"] = "\"><script>alert(2)</script>";
  make.store().begin_run(run);
  Operator op = kOperators[0];
  make.kernel_result(run, op, "<b>model</b>", 8, 0.99, kHostileName, 20, "PASSED", "");
  make.kernel_result(run, op, "<b>model</b>", 32, 0, kHostileName, 0, "BUILD_ERROR", "</td><script>alert(3)</script>");
  make.store().add_artifact(run.id, "kernels/<script>.cpp", "// </script><script>alert(4)</script>\nint main() {}\n");
  make.finish(run, {{"avg_speedup", 0.99}, {"total_passed", 1}, {"total_failed", 1}}, "failed",
              "</p><script>alert(5)</script>");
}

}  // namespace

void fill_history(Store& store, const SampleHistory& what, int64_t now_us) {
  Maker make(store);
  std::unique_ptr<Store::Batch> batch = store.batch();
  int64_t first = now_us - what.runs * kHourUs;
  if (what.hostile) hostile_run(make, first - kHourUs);
  if (what.models) e2e_runs(make, first - 2 * kHourUs);
  if (what.models) eval_run(make, first - 3 * kHourUs);
  for (int i = 0; i < what.runs; ++i) {
    kernel_run(make, what, i, first + i * kHourUs);
    if (what.models && i % 3 == 0) ttft_run(make, i / 3, first + i * kHourUs + kHourUs / 2);
  }
  batch->commit();
}

void fill_many_runs(Store& store, int runs, int64_t now_us) {
  Maker make(store);
  std::unique_ptr<Store::Batch> batch = store.batch();
  for (int i = 0; i < runs; ++i) {
    RunRecord run = make.run(fmt::format("kernels {}", i), "kernel", now_us - (runs - i) * (kHourUs / 10), i);
    store.begin_run(run);
    for (const Operator& op : kOperators)
      for (int tokens : {8, 128})
        make.kernel_result(run, op, kModels[i % 3], tokens, op.start * make.noise(0.02), "v1", 0, "PASSED", "");
    make.finish(run, {{"avg_speedup", 1.3 * make.noise(0.02)}, {"total_passed", 8}, {"total_failed", 0}});
  }
  batch->commit();
}

}  // namespace fk
