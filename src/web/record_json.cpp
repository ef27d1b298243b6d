#include "web/record_json.h"

namespace fk {
namespace {

template <class T>
Json known(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

double ms(int64_t us) { return static_cast<double>(us) * 1e-3; }

}  // namespace

Json run_json(const RunRecord& run) {
  const Environment& e = run.environment;
  return {{"id", run.id},
          {"name", run.name},
          {"experiment", run.experiment},
          {"tier", run.tier},
          {"mode", run.mode},
          {"status", run.status},
          {"error", run.error},
          {"time_ms", ms(run.started_us)},
          {"ended_ms", run.ended_us ? Json(ms(*run.ended_us)) : Json()},
          {"commit", e.git_commit},
          {"dirty", e.git_dirty},
          {"branch", e.git_branch},
          {"host", e.host},
          {"device", e.device},
          {"device_name", e.device_name()},
          {"params", Json(run.params)},
          {"tags", Json(run.tags)},
          {"metrics", Json(run.metrics)}};
}

Json operator_json(const OperatorRecord& r) {
  return {{"run_id", r.run_id},
          {"run_name", r.run_name},
          {"status", r.run_status},
          {"time_ms", ms(r.started_us)},
          {"commit", r.git_commit},
          {"device", r.device},
          {"device_name", r.device_name},
          {"op", r.op},
          {"level", r.level},
          {"candidate", r.candidate},
          {"source_sha256", r.source_sha256},
          {"passed", r.passed},
          {"failed", r.failed},
          {"skipped", r.skipped},
          {"speedup", known(r.speedup)},
          {"low", known(r.low)},
          {"high", known(r.high)},
          {"worst", known(r.worst)},
          {"worst_scenario", r.worst_scenario},
          {"err_ratio", known(r.err_ratio)}};
}

Json kernel_json(const KernelRecord& k) {
  return {{"op", k.op},
          {"level", k.level},
          {"scenario", k.scenario},
          {"models", k.models},
          {"tp", k.tp},
          {"tokens", k.tokens},
          {"dtype", k.dtype},
          {"candidate", k.candidate},
          {"verdict", k.verdict},
          {"skipped", k.skipped()},
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

Json ttft_json(const TtftRecord& t) {
  return {{"run_id", t.run_id},
          {"run_name", t.run_name},
          {"time_ms", ms(t.started_us)},
          {"commit", t.git_commit},
          {"path", t.path},
          {"model", t.model},
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

Json artifact_json(const ArtifactRecord& a) {
  return {{"path", a.path}, {"sha256", a.sha256}, {"size_bytes", a.size_bytes}};
}

Json metric_json(const MetricPoint& p) { return {{"key", p.key}, {"value", p.value}, {"step", p.step}}; }

}  // namespace fk
