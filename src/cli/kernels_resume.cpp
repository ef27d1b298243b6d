#include "cli/kernels_resume.h"

#include "core/error.h"
#include "track/records_json.h"

namespace fk {
namespace {

RunRecord journalled_run(const Json& line, const std::string& path) {
  try {
    return run_record(line.at("run"));
  } catch (const std::exception& e) {
    throw Error("The journal of {} is damaged ({}); leave --resume out to measure everything anew.", path, e.what());
  }
}

void check_same_way(const std::map<std::string, std::string>& before, const Json& now) {
  for (const auto& [key, value] : now.items()) {
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    auto known = before.find(key);
    if (known != before.end() && known->second != text)
      throw UsageError(
          "--resume: {} was {} in the interrupted run and is {} now; give the same flags, or leave --resume out", key,
          known->second, text);
  }
}

}  // namespace

EarlierRun::EarlierRun(const ResultFile& file, const Json& options) {
  std::string run_id;
  for (const Json& line : file.journal()) {
    if (line.value("event", "") == "run") {
      RunRecord run = journalled_run(line, file.path());
      if (run.id != run_id) lines_.clear();
      run_id = run.id;
      check_same_way(run.params, options);
    }
    lines_.push_back(line);
  }
}

void EarlierRun::go_on(RunRecord& run) const {
  for (const Json& line : lines_)
    if (line.value("event", "") == "run") {
      RunRecord before = run_record(line.at("run"));
      run.id = before.id;
      run.started_us = before.started_us;
    }
}

Json EarlierRun::row(std::string_view op, std::string_view scenario, std::string_view candidate) const {
  for (const Json& line : lines_)
    if (line.value("operator", "") == op && line.value("scenario", "") == scenario &&
        line.value("candidate", "") == candidate)
      return line;
  return nullptr;
}

}  // namespace fk
