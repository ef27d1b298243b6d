#include "track/import.h"

#include <sys/stat.h>

#include "core/error.h"
#include "core/input_file.h"
#include "core/loose_json.h"
#include "track/environment.h"
#include "track/events.h"
#include "track/journal.h"
#include "track/records_json.h"
#include "track/sha256.h"

namespace fk {
namespace {

constexpr size_t kLargestExport = size_t{16} << 30;

std::string file_text(const std::string& path) {
  return read_file(path, path, "; give the path of a journal, a result file or an export", kLargestExport);
}

// Old result files have no run id: the id is a hash of the content, so that the same file is the same run.
RunRecord run_of_old_file(const Json& document, const std::string& text, const std::string& path) {
  RunRecord r;
  struct stat file {};
  if (stat(path.c_str(), &file) == 0) r.started_us = int64_t{file.st_mtime} * 1'000'000;
  r.id = "imported-" + sha256_hex(text).substr(0, 16);
  r.name = "kernels (imported)";
  r.tier = "kernel";
  r.tags = {{"tier", "kernel"}};
  r.environment.details = {{"machine", document.at("machine")}};
  r.environment.device = "cpu";
  using nlohmann::literals::operator""_json_pointer;
  if (auto at = "/machine/cpu/model"_json_pointer; document.contains(at) && document.at(at).is_string())
    r.environment.cpu_name = document.at(at).get<std::string>();
  for (const auto& [key, value] : document.at("options").items())
    r.params[key] = value.is_string() ? value.get<std::string>() : value.dump();
  return r;
}

std::vector<Json> events_of_result_file(const Json& document, const std::string& text, const std::string& path) {
  if (document.value("schema", "").rfind("fastkernels.kernels/", 0) != 0)
    throw Error("{} is no result file of fastkernels: it has no schema fastkernels.kernels.", path);
  bool has_run = document.contains("run");
  RunRecord run = has_run ? run_record(document["run"]) : run_of_old_file(document, text, path);
  if (has_run) run.environment.details["machine"] = document.at("machine");
  std::vector<Json> events = {run_event(run)};
  std::map<std::string, std::string> sources;
  for (const Json& c : document.at("candidates")) {
    if (!c.contains("source")) continue;
    auto op = c.at("operator").get<std::string>();
    auto source = c.at("source").get<std::string>();
    sources[op] = sha256_hex(source);
    for (Json& e : candidate_events({op, c.value("path", ""), source, c.value("command", std::vector<std::string>()),
                                     c.value("build_log", "")}))
      events.push_back(std::move(e));
  }
  bool failed = false;
  for (const Json& row : document.at("results")) {
    failed = failed || !(kernel_record(row).passed() || kernel_record(row).skipped());
    events.push_back(row);
  }
  for (Json& e : kernel_summary_events(document.at("results"), document.at("aggregate"), sources, run.started_us))
    events.push_back(std::move(e));
  events.push_back(artifact_event("results/kernels.json", text));
  events.push_back(end_event(document.value("interrupted", false) ? "interrupted"
                             : failed                             ? "failed"
                                                                  : "finished",
                             "", run.ended_us.value_or(run.started_us)));
  return events;
}

std::vector<Json> events_of_file(const std::string& path, ImportResult& result) {
  std::string text = file_text(path);
  if (Json whole = parse_loosely(text); whole.is_object() && !whole.contains("event") && whole.contains("schema"))
    return events_of_result_file(whole, text, path);
  return Journal(path).lines(&result.damaged);
}

// True if the following events must be stored.
bool begin(Store& store, const RunRecord& run, ImportResult& result) {
  result.last_run = run.id;
  std::optional<RunRecord> known = store.run(run.id);
  if (!known) {
    store.begin_run(run);
    ++result.added;
    return true;
  }
  if (known->started_us != run.started_us || known->name != run.name)
    throw Error("The run {} there is another one than the one of that id here ('{}' against '{}')", run.id, run.name,
                known->name);
  bool whole = known->status == "finished" || known->status == "failed";
  ++(whole ? result.known : result.added);
  return !whole;
}

}  // namespace

ImportResult import_file(Store& store, const std::string& path) {
  ImportResult result;
  std::string run_id;
  size_t line = 0;
  bool open = false;  // the end of the current run has not been read
  auto close = [&] {
    // A run that a process here still writes continues; any other was interrupted.
    if (!open || process_alive(store.run(run_id)->environment.details.value("process", Json()), false)) return;
    store.end_run(run_id, "interrupted", "Its journal ends in the middle.", now_us());
  };
  try {
    std::vector<Json> events = events_of_file(path, result);
    auto batch = store.batch();
    bool taking = false;
    for (const Json& event : events) {
      ++line;
      if (event.value("event", "") == "run") {
        RunRecord run = run_record(event.at("run"));
        close();
        run_id = run.id;
        open = taking = begin(store, run, result);
      } else if (run_id.empty()) {
        throw Error("it does not begin with a run; a journal of `kernels` before runs were stored has its result file");
      } else if (taking) {
        apply_event(store, run_id, event);
        open = open && event.value("event", "") != "end";
      }
    }
    close();
    if (run_id.empty()) throw Error("it holds no run");
    batch->commit();
  } catch (const Json::exception& e) {
    throw Error("{} cannot be imported, nothing of it was: record {} is not what it must be ({}).", path, line,
                e.what());
  } catch (const Error& e) {
    throw Error("{} cannot be imported, nothing of it was: {}.", path, e.what());
  }
  return result;
}

}  // namespace fk
