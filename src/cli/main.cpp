// fastkernels <verb>: parses the command line, runs one verb, turns errors into one sentence and an exit code.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "cli/command_line.h"
#include "cli/config_file.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "core/error.h"
#include "core/thread_pool.h"
#include "models/lost_pages.h"

namespace fk {
namespace {

int run(int argc, char** argv) {
  CommonOptions common;
  common.threads = std::min(usable_cores(), kMaxThreads);
  FlagSet program;
  add_common_options(program, common);
  for (Verb* verb : all_verbs()) add_common_options(verb->flags(), common);
  // A bad config file stops the verbs that take it, and neither --help nor the others.
  Config config;
  std::string config_error;
  try {
    config = read_config(all_verbs());
    relax_required(config, all_verbs());
  } catch (const Error& e) {
    config_error = e.what();
  }
  CommandLine line = read_command_line(argc, argv, program);
  if (!line.asked.empty()) {
    print_out(line.asked);
    return kOk;
  }
  if (line.verb != nullptr && line.verb->takes_config()) {
    if (!config_error.empty()) throw UsageError("{}", config_error);
    apply_config(config, *line.verb, program);
    common.config_file = config.path;
    common.given = given_flags(config, *line.verb, program);
    // Child processes get every flag they need from the verb, so they read no config file.
    setenv("FASTKERNELS_CONFIG", "", 1);
  }
  check_common_options(common, line.verb != nullptr && line.verb->computes());
  if (line.verb == nullptr) {
    std::fputs(line.help.c_str(), stderr);
    return kBadFlags;
  }
  line.verb->run(common);
  return kOk;
}

}  // namespace
}  // namespace fk

int main(int argc, char** argv) {
  // A closed pipe is an error code of write(), handled in print_out; as a signal it would end the program.
  std::signal(SIGPIPE, SIG_IGN);
  fk::end_cleanly_on_signals();
  fk::explain_lost_pages();
  return fk::exit_code_of([&] { return fk::run(argc, argv); });
}
