// The fields of each record, listed once: its JSON, its columns in the store and the data of web pages are made from
// these lists. A visitor is called as v(name, field) for each, in this order.
#pragma once

#include <concepts>
#include <type_traits>

#include "track/records.h"

namespace fk {

// The common fields of a run; the table `runs` has these, machine_fields() and the environment's details.
template <class Run, class Visitor>
void run_fields(Run& r, Visitor&& v) {
  auto& e = r.environment;
  v("run_id", r.id);
  v("name", r.name);
  v("experiment", r.experiment);
  v("tier", r.tier);
  v("mode", r.mode);
  v("status", r.status);
  v("error", r.error);
  v("started_us", r.started_us);
  v("ended_us", r.ended_us);
  v("git_commit", e.git_commit);
  v("git_branch", e.git_branch);
  v("git_dirty", e.git_dirty);
  v("host", e.host);
  v("device", e.device);
}

template <class Run, class Visitor>
void machine_fields(Run& r, Visitor&& v) {
  auto& e = r.environment;
  v("cpu_name", e.cpu_name);
  v("gpu_name", e.gpu_name);
  v("gpu_driver", e.gpu_driver);
  v("gpu_vram_mb", e.gpu_vram_mb);
  v("cuda_version", e.cuda_version);
}

// Of the run that a result belongs to: the store has these once, in `runs`.
template <class Record, class Visitor>
requires std::same_as<std::remove_const_t<Record>, OperatorRecord>
void owner_fields(Record& o, Visitor&& v) {
  v("run_id", o.run_id);
  v("run_name", o.run_name);
  v("run_status", o.run_status);
  v("started_us", o.started_us);
  v("git_commit", o.git_commit);
  v("device", o.device);
  v("device_name", o.device_name);
  v("filter", o.filter);
}
template <class Record, class Visitor>
requires std::same_as<std::remove_const_t<Record>, KernelRecord>
void owner_fields(Record& k, Visitor&& v) {
  v("run_id", k.run_id);
  v("started_us", k.started_us);
}
template <class Record, class Visitor>
requires std::same_as<std::remove_const_t<Record>, TtftRecord>
void owner_fields(Record& t, Visitor&& v) {
  v("run_id", t.run_id);
  v("run_name", t.run_name);
  v("started_us", t.started_us);
  v("git_commit", t.git_commit);
}

// Of the result itself.
template <class Record, class Visitor>
requires std::same_as<std::remove_const_t<Record>, OperatorRecord>
void own_fields(Record& o, Visitor&& v) {
  v("op", o.op);
  v("level", o.level);
  v("candidate", o.candidate);
  v("source_sha256", o.source_sha256);
  v("passed", o.passed);
  v("failed", o.failed);
  v("skipped", o.skipped);
  v("speedup", o.speedup);
  v("low", o.low);
  v("high", o.high);
  v("worst", o.worst);
  v("worst_scenario", o.worst_scenario);
  v("err_ratio", o.err_ratio);
  v("confirmed", o.confirmed);
  v("scenario_set", o.scenario_set);
  v("timed_set", o.timed_set);
  v("timed", o.timed);
}

template <class Record, class Visitor>
requires std::same_as<std::remove_const_t<Record>, KernelRecord>
void own_fields(Record& k, Visitor&& v) {
  v("op", k.op);
  v("level", k.level);
  v("scenario", k.scenario);
  v("models", k.models);
  v("tp", k.tp);
  v("tokens", k.tokens);
  v("dtype", k.dtype);
  v("candidate", k.candidate);
  v("verdict", k.verdict);
  v("sentence", k.sentence);
  v("err_ratio", k.err_ratio);
  v("baseline_ns", k.baseline_ns);
  v("candidate_ns", k.candidate_ns);
  v("speedup", k.speedup);
  v("low", k.low);
  v("high", k.high);
  v("speed_verdict", k.speed_verdict);
  v("invalid", k.invalid);
  v("delta", k.delta);
  v("control_error", k.control_error);
  v("floor_ns", k.floor_ns);
  v("of_floor", k.of_floor);
  v("bytes", k.bytes);
  v("matrix_flops", k.matrix_flops);
  v("vector_flops", k.vector_flops);
  v("seconds", k.seconds);
  v("confirmed", k.confirmed);
}

template <class Record, class Visitor>
requires std::same_as<std::remove_const_t<Record>, TtftRecord>
void own_fields(Record& t, Visitor&& v) {
  v("path", t.path);
  v("model", t.model);
  v("model_key", t.model_key);
  v("config", t.config);
  v("device", t.device);
  v("dtype", t.dtype);
  v("threads", t.threads);
  v("prompt_tokens", t.prompt_tokens);
  v("iters", t.iters);
  v("decode_tokens", t.decode_tokens);
  v("search_iters", t.search_iters);
  v("ttft_ms", t.ttft_ms);
  v("ttft_ms_mean", t.ttft_ms_mean);
  v("ttft_sequential_ms", t.ttft_sequential_ms);
  v("tpot_ms", t.tpot_ms);
  v("throughput_tps", t.throughput_tps);
  v("compile_ms", t.compile_ms);
  v("prefill_floor_share", t.prefill_floor_share);
  v("decode_floor_share", t.decode_floor_share);
  v("load_ms", t.load_ms);
  v("weights_bytes", t.weights_bytes);
  v("peak_memory_bytes", t.peak_memory_bytes);
  v("note", t.note);
  v("error", t.error);
  v("samples", t.samples);
  v("details", t.details);
}

// A number that is unknown is null, never zero.
template <class T>
Json known(const T& value) {
  return value;
}
template <class T>
Json known(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace fk
