#include "bench/eval/pair_task.h"

#include <fmt/format.h>

#include "core/error.h"

namespace fk {
namespace {

constexpr const char* kPhases[] = {"reference", "timed", "scored"};

// Calls visit(key, field) for every field: writing and reading cannot disagree.
template <class Task, class Visit>
void for_each_field(Task& t, Visit&& visit) {
  visit("name", t.name);
  visit("model", t.model);
  visit("load_format", t.load_format);
  visit("dtype", t.dtype);
  visit("quantization", t.quantization);
  visit("weight_seed", t.weight_seed);
  visit("category", t.category);
  visit("tp", t.tp);
  visit("device", t.device);
  visit("threads", t.threads);
  visit("cores", t.cores);
  visit("seed", t.seed);
  visit("num_prompts", t.num_prompts);
  visit("max_num_seqs", t.max_num_seqs);
  visit("scale", t.scale);
  visit("rounds", t.rounds);
  visit("iterations", t.iterations);
  visit("timeout_s", t.timeout_s);
  visit("candidate_folder", t.candidate_folder);
  visit("cxxflags", t.cxxflags);
  visit("allow_libraries", t.allow_libraries);
  visit("folder", t.folder);
}

}  // namespace

Json to_json(const PairTask& task) {
  Json json = Json::object();
  for_each_field(task, [&](const char* key, const auto& field) { json[key] = field; });
  return json;
}

PairTask pair_task_of(const Json& json) {
  PairTask task;
  for_each_field(task, [&](const char* key, auto& field) { json.at(key).get_to(field); });
  return task;
}

Json to_json(const SideTask& task) {
  return {{"pair", to_json(task.pair)},        {"phase", kPhases[static_cast<size_t>(task.phase)]},
          {"candidate", task.candidate},       {"round", task.round},
          {"check_before", task.check_before}, {"check_after", task.check_after},
          {"repeats", task.repeats},           {"output", task.output}};
}

SideTask side_task_of(const Json& json) {
  SideTask task;
  task.pair = pair_task_of(json.at("pair"));
  size_t phase = 0;
  while (phase < std::size(kPhases) && json.at("phase") != kPhases[phase]) ++phase;
  if (phase == std::size(kPhases)) throw Error("A task of an evaluation has an unknown phase; start it again.");
  task.phase = static_cast<SidePhase>(phase);
  json.at("candidate").get_to(task.candidate);
  json.at("round").get_to(task.round);
  json.at("check_before").get_to(task.check_before);
  json.at("check_after").get_to(task.check_after);
  json.at("repeats").get_to(task.repeats);
  json.at("output").get_to(task.output);
  return task;
}

std::string reference_path(const PairTask& task, const std::string& workload) {
  return fmt::format("{}/reference_{}.bin", task.folder, workload);
}

std::string scored_path(const PairTask& task) { return task.folder + "/drawn_while_timed.json"; }

}  // namespace fk
