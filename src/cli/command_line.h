// The command line, read: which verb it names, with the targets of all flags filled in.
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

// `program` are the flags before the verb; the verbs are all_verbs(). Throws UsageError for what cannot be understood.
CommandLine read_command_line(int argc, char** argv, FlagSet& program);

}  // namespace fk
