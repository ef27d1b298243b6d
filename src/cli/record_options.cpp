#include "cli/record_options.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <ctime>

#include "core/bench_folder.h"
#include "track/environment.h"

namespace fk {

void add_record_options(FlagSet& flags, RecordOptions& options) {
  flags.option("--db", options.db, "History to store the run in [" + default_store_path() + "]").type_name("FILE");
  flags.flag("--no-history", options.off, "Do not store this run");
  flags.option("--name", options.name,
               "What the run is called in the history, instead of a name made from what it does");
  flags.option("--tag", options.tags, "Tag of the run, KEY or KEY=VALUE; may be given several times")
      .type_name("TAG")
      .check(tag_complaint);
  flags.option("--note", options.note, "A sentence kept with the run; the dashboard shows it and can change it");
}

std::string tag_complaint(const std::string& tag) {
  std::string key = tag.substr(0, tag.find('='));
  if (key.empty()) return fmt::format("'{}' is no tag; write KEY or KEY=VALUE", tag);
  for (const char* ours : {"note", "tier", "version"})
    if (key == ours) return fmt::format("the tag '{}' is set by fastkernels itself; choose another key", key);
  return "";
}

RunRecord named(RunRecord run, const RecordOptions& options) {
  if (!options.name.empty()) run.name = options.name;
  if (!options.note.empty()) run.tags["note"] = options.note;
  for (const std::string& tag : options.tags) {
    size_t sign = tag.find('=');
    run.tags[tag.substr(0, sign)] = sign == std::string::npos ? "true" : tag.substr(sign + 1);
  }
  return run;
}

RecorderOptions recorder_options(const RecordOptions& options, const std::string& journal, bool journal_always) {
  RecorderOptions r;
  r.enabled = !options.off;
  r.db = options.db;
  r.journal = journal;
  r.journal_always = journal_always;
  return r;
}

void warn_on_stderr(const std::string& sentence) {
  std::string line = fmt::format("fastkernels: warning: {}\n", sentence);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

RunRecord new_run(const std::string& tier, const CommonOptions& common, const MachineInfo& machine) {
  RunRecord run;
  run.tier = tier;
  run.started_us = now_us();
  run.id = make_run_id(run.started_us);
  run.environment = collect_environment(device_name(common.device), to_json(machine));
  run.params = {{"threads", std::to_string(common.threads)}, {"seed", std::to_string(common.seed)}};
  std::string from_config;
  for (const GivenFlag& flag : common.given) {
    run.environment.details["flags"][flag.name] = {{"value", flag.value}, {"from", flag.from}};
    if (flag.from != kCommandLine)
      from_config += fmt::format("{}{}={}", from_config.empty() ? "" : " ", flag.name, flag.value);
  }
  if (!from_config.empty()) run.params["config"] = from_config;
  run.tags = {{"version", FK_VERSION}};
  return run;
}

std::string results_path(const std::string& stem, const std::string& extension) {
  int64_t now = now_us();
  auto seconds = static_cast<std::time_t>(now / 1'000'000);
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  return fmt::format("{}/results/{}_{}-{:06}{}", bench_folder(), stem, text, now % 1'000'000, extension);
}

}  // namespace fk
