// Verb: a subcommand of the program. To add one, derive from it and define one static object.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "cli/options.h"

namespace fk {

class Verb {
 public:
  // `examples`: one command per line, shown at the end of the verb's help.
  Verb(std::string name, std::string summary, std::vector<std::string> examples);
  virtual ~Verb() = default;
  Verb(const Verb&) = delete;
  Verb& operator=(const Verb&) = delete;

  // Runs after all flags are parsed. Prints through cli/output.h; throws Error (exit 1) or UsageError (exit 2).
  virtual void run(const CommonOptions& common) = 0;

  // Whether the verb needs the --device to exist; false for verbs that do not compute on it.
  virtual bool computes() const { return true; }

  // Whether the config file applies; false for verbs that must work even with a broken config file.
  virtual bool takes_config() const { return true; }

  const std::string& name() const { return name_; }
  const std::string& summary() const { return summary_; }
  const std::vector<std::string>& examples() const { return examples_; }

  // The verb's own flags; main adds the common ones.
  FlagSet& flags();

 private:
  // Adds the verb's own flags, bound to members of the object.
  virtual void add_flags(FlagSet& flags) = 0;

  std::string name_;
  std::string summary_;
  std::vector<std::string> examples_;
  std::unique_ptr<FlagSet> flags_;  // made when it is first asked for
};

// Every verb of this executable, by name.
std::vector<Verb*> all_verbs();

}  // namespace fk
