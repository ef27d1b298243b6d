// KernelResult as JSON: the schema documented in docs/kernels.schema.json.
#include "bench/kernels/kernel_bench.h"
#include "bench/scenarios/scenario_file.h"
#include "sandbox/message.h"

namespace fk {

Json to_json(const std::vector<Protection>& protections) {
  Json list = Json::array();
  for (const Protection& p : protections) list.push_back({{"name", p.name}, {"on", p.on}, {"why", p.why}});
  return list;
}

namespace {

Json summary(const Summary& s) {
  return {{"median_ns", s.median}, {"q1_ns", s.q1},     {"q3_ns", s.q3}, {"min_ns", s.min},
          {"p95_ns", s.p95},       {"cv", s.variation}, {"n", s.count}};
}

Json samples(const PairedSamples& launches) {
  Json list = Json::array();
  for (const auto& launch : launches) {
    Json pairs = Json::array();
    for (const TimePair& p : launch) pairs.push_back({p.baseline_ns, p.candidate_ns, drop_reason_name(p.dropped)});
    list.push_back(std::move(pairs));
  }
  return list;
}

Json dispatches(const std::vector<RunnerDispatch>& counts) {
  Json list = Json::array();
  for (const RunnerDispatch& d : counts)
    list.push_back(
        {{"operator", d.op}, {"implementation", d.implementation}, {"rows_up_to", d.rows_up_to}, {"calls", d.calls}});
  return list;
}

Json timing_json(const TimingResult& t) {
  Json json = {{"calls_per_sample", t.calls_per_sample},   {"elements_checked", t.elements_checked},
               {"calls_judged", t.calls_judged},           {"prepare_ns", t.prepare_ns},
               {"baseline_peak_kib", t.baseline_peak_kib}, {"candidate_peak_kib", t.candidate_peak_kib},
               {"protections", to_json(t.protections)}};
  if (t.failure) return json;
  const PairedResult& p = t.paired;
  json["dispatches"] = {{"baseline", dispatches(t.baseline_dispatches)},
                        {"candidate", dispatches(t.candidate_dispatches)}};
  json["invalid"] = p.invalid;
  json["pairs"] = p.pairs;
  json["pairs_dropped"] = p.dropped_pairs();
  json["dropped_by_reason"] = Json::object();
  for (size_t i = 1; i < kDropReasons; ++i)
    if (p.dropped[i] > 0) json["dropped_by_reason"][drop_reason_name(static_cast<Dropped>(i))] = p.dropped[i];
  json["samples"] = samples(t.samples);
  json["control_samples"] = samples(t.control);
  if (p.candidate.count == 0) return json;  // every pair was dropped
  json["speedup"] = p.speedup();
  json["speedup_low"] = p.speedup_interval().low;
  json["speedup_high"] = p.speedup_interval().high;
  json["speed_verdict"] = speed_verdict_name(p.verdict);
  json["delta"] = p.delta;
  json["control_error"] = p.control_error;
  json["baseline"] = summary(p.baseline);
  json["candidate"] = summary(p.candidate);
  json["could_hide_ns"] = t.could_hide_ns;
  json["exchange_ns"] = t.exchange_ns;
  json["baseline_alone_ns"] = t.baseline_alone_ns;
  json["candidate_alone_ns"] = t.candidate_alone_ns;
  if (t.clock_mhz > 0) {
    json["clock_mhz"] = t.clock_mhz;
    json["held"] = t.held;
  }
  return json;
}

// Arguments for which the scenario overrides the contract.
Json inputs_json(const Scenario& s) {
  Json inputs = Json::object();
  for (const ArgumentOverride& o : s.overrides) {
    Json& input = inputs[o.name] = Json::object();
    if (o.generator) input["generator"] = generator_text(*o.generator);
    if (!o.strides.empty()) input["strides"] = o.strides;
    if (!o.golden.empty()) input["golden"] = o.golden;
  }
  return inputs;
}

}  // namespace

Json to_json(const Confirmation& c) {
  Json json = {{"confirmed", c.confirmed}, {"best_before", c.best_before}, {"sentence", c.sentence}};
  if (c.seed) json["seed"] = *c.seed;
  if (!c.speedup) return json;
  json["speedup"] = *c.speedup;
  json["speedup_low"] = c.interval.low;
  json["speedup_high"] = c.interval.high;
  return json;
}

Json to_json(const KernelResult& r) {
  Json json = {{"operator", r.scenario.op},
               {"level", r.scenario.info().level},
               {"scenario", r.scenario.name},
               {"models", r.scenario.models},
               {"tp", r.scenario.tp},
               {"count", r.scenario.count},
               {"init", fields_to_json(r.scenario.init)},
               {"workload", to_json(r.scenario.workload)},
               {"inputs", inputs_json(r.scenario)},
               {"verdict", verdict_name(r.verdict)},
               {"sentence", r.sentence},
               {"judgement", to_json(r.judgement)},
               {"bytes", r.cost.bytes()},
               {"read_bytes", r.cost.read_bytes},
               {"written_bytes", r.cost.written_bytes},
               {"matrix_flops", r.cost.matrix_flops},
               {"vector_flops", r.cost.vector_flops},
               {"seconds", r.seconds}};
  if (!r.judgement.failures.empty() && r.judgement.failures.front().mismatch)
    json["mismatch"] = to_json(*r.judgement.failures.front().mismatch);
  if (!r.printed.empty()) json["printed"] = r.printed;
  if (r.timing) json["timing"] = timing_json(*r.timing);
  if (r.other_timing) json[r.cold ? "timing_warm" : "timing_cold"] = timing_json(*r.other_timing);
  if (r.confirmation) json["confirmation"] = to_json(*r.confirmation);
  if (r.timing && !r.timing->failure) {
    json["floor_ns"] = r.floor.seconds * 1e9;
    json["of_floor"] = r.of_floor();
    if (!r.floor_note.empty()) json["floor_note"] = r.floor_note;
    if (double took_ns = r.timing->paired.candidate.median; took_ns > 0) {
      json["gbps"] = r.cost.bytes() / took_ns;
      json["tflops"] = (r.cost.matrix_flops + r.cost.vector_flops) / took_ns * 1e-3;
    }
  }
  return json;
}

}  // namespace fk
