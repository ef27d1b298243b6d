// What one process of an evaluation measures, on one side: baseline or candidate.
//
// The result, as JSON:
//   reference  workloads: {name: {repeats, noise: {errors, margins}}}
//   timed      workloads: {name: {times_ms, drawn (tokens by request) or vectors}}, checks: [{when, workloads: ...}]
//   scored     workloads: {name: {candidate: margins, baseline: margins}}
#pragma once

#include "bench/eval/alignment.h"
#include "bench/eval/pair_task.h"
#include "engine/model.h"

namespace fk {

// What the task of the model needs: one of those below. On every rank; `first`: the one that writes files.
Json run_side(const Model& model, ThreadPool& pool, const SideTask& task, bool first);
Json run_causal_side(const Model& model, ThreadPool& pool, const SideTask& task, bool first);
Json run_encoder_side(const Model& model, ThreadPool& pool, const SideTask& task, bool first);
Json run_denoiser_side(const Model& model, ThreadPool& pool, const SideTask& task, bool first);

Json to_json(const PositionErrors& errors);
PositionErrors position_errors_of(const Json& json);

// Repetitions of a workload that took this long once, so that its time is not that of a short disturbance; at least
// `least`.
int64_t repeats_for(double seconds, int64_t least);

}  // namespace fk
