// The parsed command line: its verb, with the values of all flags set.
#pragma once

#include <string>

#include "cli/flags.h"
#include "cli/verb.h"

namespace fk {

struct CommandLine {
  Verb* verb = nullptr;    // to be run; null where none was named
  std::string asked = {};  // help or version, where a flag asks for it: to be printed instead
  std::string help = {};   // of the program, where no verb was named
};

// `program` are the flags before the verb; the verbs are all_verbs(). Throws UsageError if the command line is invalid.
CommandLine read_command_line(int argc, char** argv, FlagSet& program);

}  // namespace fk
