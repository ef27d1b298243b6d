#include "track/records_json.h"

#include "core/error.h"

namespace fk {
namespace {

template <class T>
Json known(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

template <class T>
std::optional<T> maybe(const Json& json, const char* key) {
  auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nullopt;
  return found->get<T>();
}

std::string text(const Json& json, const char* key) { return maybe<std::string>(json, key).value_or(""); }

std::string required(const Json& json, const char* key) {
  std::string value = text(json, key);
  if (value.empty()) throw Error("'{}' is missing", key);
  return value;
}

int64_t whole(const Json& json, const char* key, int64_t otherwise = 0) {
  return maybe<int64_t>(json, key).value_or(otherwise);
}

using Pairs = std::map<std::string, std::string>;

}  // namespace

Json to_json(const RunRecord& r) {
  const Environment& e = r.environment;
  Json json = {{"run_id", r.id},
               {"name", r.name},
               {"experiment", r.experiment},
               {"tier", r.tier},
               {"mode", r.mode},
               {"status", r.status},
               {"error", r.error},
               {"started_us", r.started_us},
               {"ended_us", known(r.ended_us)},
               {"git_commit", e.git_commit},
               {"git_branch", e.git_branch},
               {"git_dirty", e.git_dirty},
               {"host", e.host},
               {"device", e.device},
               {"device_name", e.device_name()},
               {"cpu_name", e.cpu_name},
               {"gpu_name", e.gpu_name},
               {"gpu_driver", e.gpu_driver},
               {"gpu_vram_mb", e.gpu_vram_mb},
               {"cuda_version", e.cuda_version},
               {"params", r.params},
               {"tags", r.tags},
               {"metrics", r.metrics}};
  if (!e.details.empty()) json["environment"] = e.details;
  return json;
}

RunRecord run_record(const Json& json) {
  RunRecord r;
  r.id = required(json, "run_id");
  r.name = required(json, "name");
  r.experiment = required(json, "experiment");
  r.tier = required(json, "tier");
  r.mode = text(json, "mode");
  r.status = required(json, "status");
  r.error = text(json, "error");
  r.started_us = json.at("started_us").get<int64_t>();
  r.ended_us = maybe<int64_t>(json, "ended_us");
  Environment& e = r.environment;
  e.git_commit = text(json, "git_commit");
  e.git_branch = text(json, "git_branch");
  e.git_dirty = maybe<bool>(json, "git_dirty").value_or(false);
  e.host = text(json, "host");
  e.device = text(json, "device");
  e.cpu_name = text(json, "cpu_name");
  e.gpu_name = text(json, "gpu_name");
  e.gpu_driver = text(json, "gpu_driver");
  e.gpu_vram_mb = whole(json, "gpu_vram_mb");
  e.cuda_version = text(json, "cuda_version");
  e.details = maybe<Json>(json, "environment").value_or(Json::object());
  r.params = maybe<Pairs>(json, "params").value_or(Pairs());
  r.tags = maybe<Pairs>(json, "tags").value_or(Pairs());
  r.metrics = maybe<std::map<std::string, double>>(json, "metrics").value_or(std::map<std::string, double>());
  return r;
}

Json to_json(const OperatorRecord& o) {
  return {{"run_id", o.run_id},
          {"run_name", o.run_name},
          {"run_status", o.run_status},
          {"started_us", o.started_us},
          {"git_commit", o.git_commit},
          {"device", o.device},
          {"device_name", o.device_name},
          {"operator", o.op},
          {"level", o.level},
          {"candidate", o.candidate},
          {"source_sha256", o.source_sha256},
          {"passed", o.passed},
          {"failed", o.failed},
          {"skipped", o.skipped},
          {"correct", o.correct()},
          {"speedup", known(o.speedup)},
          {"low", known(o.low)},
          {"high", known(o.high)},
          {"worst", known(o.worst)},
          {"worst_scenario", o.worst_scenario},
          {"err_ratio", known(o.err_ratio)}};
}

OperatorRecord operator_record(const Json& json) {
  OperatorRecord o;
  o.op = required(json, "operator");
  o.level = static_cast<int>(whole(json, "level"));
  o.candidate = text(json, "candidate");
  o.source_sha256 = text(json, "source_sha256");
  o.passed = whole(json, "passed");
  o.failed = whole(json, "failed");
  o.skipped = whole(json, "skipped");
  o.speedup = maybe<double>(json, "speedup");
  o.low = maybe<double>(json, "low");
  o.high = maybe<double>(json, "high");
  o.worst = maybe<double>(json, "worst");
  o.worst_scenario = text(json, "worst_scenario");
  o.err_ratio = maybe<double>(json, "err_ratio");
  return o;
}

Json to_json(const KernelRecord& k) {
  return {{"run_id", k.run_id},
          {"started_us", k.started_us},
          {"operator", k.op},
          {"level", k.level},
          {"scenario", k.scenario},
          {"models", k.models},
          {"tp", k.tp},
          {"tokens", k.tokens},
          {"dtype", k.dtype},
          {"candidate", k.candidate},
          {"verdict", k.verdict},
          {"sentence", k.sentence},
          {"err_ratio", known(k.err_ratio)},
          {"baseline_ns", known(k.baseline_ns)},
          {"candidate_ns", known(k.candidate_ns)},
          {"speedup", known(k.speedup)},
          {"low", known(k.low)},
          {"high", known(k.high)},
          {"speed_verdict", k.speed_verdict},
          {"invalid", k.invalid},
          {"delta", known(k.delta)},
          {"control_error", known(k.control_error)},
          {"floor_ns", known(k.floor_ns)},
          {"of_floor", known(k.of_floor)},
          {"bytes", k.bytes},
          {"matrix_flops", k.matrix_flops},
          {"vector_flops", k.vector_flops},
          {"seconds", k.seconds}};
}

Json to_json(const TtftRecord& t) {
  return {{"run_id", t.run_id},
          {"run_name", t.run_name},
          {"started_us", t.started_us},
          {"git_commit", t.git_commit},
          {"path", t.path},
          {"model", t.model},
          {"model_key", t.model_key},
          {"config", t.config},
          {"device", t.device},
          {"dtype", t.dtype},
          {"threads", t.threads},
          {"prompt_tokens", t.prompt_tokens},
          {"iters", t.iters},
          {"decode_tokens", t.decode_tokens},
          {"search_iters", known(t.search_iters)},
          {"ttft_ms", known(t.ttft_ms)},
          {"ttft_ms_mean", known(t.ttft_ms_mean)},
          {"ttft_sequential_ms", known(t.ttft_sequential_ms)},
          {"tpot_ms", known(t.tpot_ms)},
          {"throughput_tps", known(t.throughput_tps)},
          {"compile_ms", known(t.compile_ms)},
          {"prefill_floor_share", known(t.prefill_floor_share)},
          {"decode_floor_share", known(t.decode_floor_share)},
          {"load_ms", known(t.load_ms)},
          {"weights_bytes", known(t.weights_bytes)},
          {"peak_memory_bytes", known(t.peak_memory_bytes)},
          {"note", t.note},
          {"error", t.error},
          {"samples", t.samples}};
}

TtftRecord ttft_record(const Json& json) {
  TtftRecord t;
  t.path = required(json, "path");
  t.model = required(json, "model");
  t.model_key = text(json, "model_key");
  t.config = text(json, "config");
  t.device = text(json, "device");
  t.dtype = text(json, "dtype");
  t.threads = whole(json, "threads");
  t.prompt_tokens = whole(json, "prompt_tokens");
  t.iters = whole(json, "iters");
  t.decode_tokens = whole(json, "decode_tokens");
  t.search_iters = maybe<int64_t>(json, "search_iters");
  t.ttft_ms = maybe<double>(json, "ttft_ms");
  t.ttft_ms_mean = maybe<double>(json, "ttft_ms_mean");
  t.ttft_sequential_ms = maybe<double>(json, "ttft_sequential_ms");
  t.tpot_ms = maybe<double>(json, "tpot_ms");
  t.throughput_tps = maybe<double>(json, "throughput_tps");
  t.compile_ms = maybe<double>(json, "compile_ms");
  t.prefill_floor_share = maybe<double>(json, "prefill_floor_share");
  t.decode_floor_share = maybe<double>(json, "decode_floor_share");
  t.load_ms = maybe<double>(json, "load_ms");
  t.weights_bytes = maybe<int64_t>(json, "weights_bytes");
  t.peak_memory_bytes = maybe<int64_t>(json, "peak_memory_bytes");
  t.note = text(json, "note");
  t.error = text(json, "error");
  t.samples = maybe<Json>(json, "samples").value_or(Json::object());
  return t;
}

Json to_json(const ArtifactRecord& a) { return {{"path", a.path}, {"sha256", a.sha256}, {"size_bytes", a.size_bytes}}; }

Json to_json(const MetricPoint& p) {
  return {{"key", p.key}, {"value", p.value}, {"step", p.step}, {"time_us", p.time_us}};
}

MetricPoint metric_point(const Json& json) {
  return {required(json, "key"), json.at("value").get<double>(), whole(json, "step"), whole(json, "time_us")};
}

KernelRecord kernel_record(const Json& row) {
  KernelRecord k;
  k.op = required(row, "operator");
  k.scenario = required(row, "scenario");
  k.verdict = required(row, "verdict");
  k.sentence = text(row, "sentence");
  k.level = static_cast<int>(whole(row, "level"));
  k.models = maybe<std::vector<std::string>>(row, "models").value_or(std::vector<std::string>());
  k.tp = whole(row, "tp", 1);
  k.candidate = text(row, "candidate");
  if (auto workload = maybe<Json>(row, "workload")) {
    k.dtype = text(*workload, "dtype");
    for (const Json& sequence : workload->value("sequences", Json::array())) k.tokens += sequence.at(0).get<int64_t>();
  }
  if (k.passed())
    if (auto judgement = maybe<Json>(row, "judgement"); judgement && judgement->contains("worst_ratio"))
      if (const Json& ratio = judgement->at("worst_ratio"); ratio.is_number()) k.err_ratio = ratio.get<double>();
  k.bytes = maybe<double>(row, "bytes").value_or(0);
  k.matrix_flops = maybe<double>(row, "matrix_flops").value_or(0);
  k.vector_flops = maybe<double>(row, "vector_flops").value_or(0);
  k.seconds = maybe<double>(row, "seconds").value_or(0);
  k.floor_ns = maybe<double>(row, "floor_ns");
  k.of_floor = maybe<double>(row, "of_floor");
  auto timing = maybe<Json>(row, "timing");
  if (!timing) return k;
  k.invalid = text(*timing, "invalid");
  k.speedup = maybe<double>(*timing, "speedup");
  k.low = maybe<double>(*timing, "speedup_low");
  k.high = maybe<double>(*timing, "speedup_high");
  k.speed_verdict = text(*timing, "speed_verdict");
  k.delta = maybe<double>(*timing, "delta");
  k.control_error = maybe<double>(*timing, "control_error");
  if (auto side = maybe<Json>(*timing, "baseline")) k.baseline_ns = maybe<double>(*side, "median_ns");
  if (auto side = maybe<Json>(*timing, "candidate")) k.candidate_ns = maybe<double>(*side, "median_ns");
  return k;
}

KernelDetail kernel_detail(Json row) {
  KernelDetail d{std::move(row), Json::array(), Json::array()};
  auto timing = d.detail.find("timing");
  if (timing == d.detail.end() || !timing->is_object()) return d;
  // Emptied, not erased: the row can be put together again with its keys where they were.
  if (auto list = timing->find("samples"); list != timing->end()) std::swap(d.samples, *list);
  if (auto list = timing->find("control_samples"); list != timing->end()) std::swap(d.control_samples, *list);
  return d;
}

Json kernel_row(const KernelDetail& d) {
  Json row = d.detail;
  auto timing = row.find("timing");
  if (timing == row.end() || !timing->is_object()) return row;
  if (timing->contains("samples")) (*timing)["samples"] = d.samples;
  if (timing->contains("control_samples")) (*timing)["control_samples"] = d.control_samples;
  return row;
}

}  // namespace fk
