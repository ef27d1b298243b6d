// The flags of verbs whose runs are stored, and the recorder they configure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/options.h"
#include "measure/machine_info.h"
#include "track/recorder.h"

namespace fk {

struct RecordOptions {
  bool off = false;
  std::string db;
  std::string name, note;
  std::vector<std::string> tags;  // "nightly" or "kind=nightly"
};

void add_record_options(FlagSet& flags, RecordOptions& options);  // --db, --no-history, --name, --tag, --note

// The run with the name, the tags and the note it was given; a word alone is a tag whose value is "true".
RunRecord named(RunRecord run, const RecordOptions& options);

// What is wrong with a tag of the command line, or nothing.
std::string tag_complaint(const std::string& tag);

RecorderOptions recorder_options(const RecordOptions& options, const std::string& journal, bool journal_always);

// Warnings of the recorder: one line on standard error.
void warn_on_stderr(const std::string& sentence);

// The part of a record that is the same for all verbs; name, mode, params and tags depend on the verb.
RunRecord new_run(const std::string& tier, const CommonOptions& common, const MachineInfo& machine);

// results/{stem}_<local time with microseconds>{extension} in bench_folder()
std::string results_path(const std::string& stem, const std::string& extension);

}  // namespace fk
