// The config file: values for flags that are not on the command line.
//
//   threads: 4            # every verb that has the flag
//   kernels:
//     num-runs: 200       # this verb only; wins over a value for every verb
//
// $FASTKERNELS_CONFIG names it; else it is ./fastkernels.yaml, else $XDG_CONFIG_HOME/fastkernels/config.yaml. Only the
// first of them that exists is read.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "cli/verb.h"

namespace fk {

struct Setting {
  std::string verb;  // empty: every verb that has the flag
  std::string key;   // the flag's name without dashes
  std::vector<std::string> values;
  int line = 0;

  std::string value() const;  // separated by blanks
};

struct Config {
  std::string path;  // empty: there is no config file
  std::vector<Setting> settings;
  std::set<std::string> common;  // keys that mean the same for all verbs; check_keys fills it in

  // The one in effect for a flag of a verb.
  const Setting* find(const Verb& verb, const Flag& flag) const;
  std::string place(const Setting& setting) const;  // "fastkernels.yaml:3"
};

// The paths that are searched for a config file, in this order. If $FASTKERNELS_CONFIG is set, it is the only path; if
// it is empty, there is none.
std::vector<std::string> config_places();

// Reads the text of a config file. Throws UsageError if it is not a mapping of keys to values.
Config parse_config(std::string_view text, const std::string& path);

// Throws UsageError for a key that no verb has as a flag.
void check_keys(Config& config, const std::vector<Verb*>& verbs);

// Throws UsageError for a value that its flag of this verb does not accept. Called only for the verb that runs: a file
// that another verb needs may not exist yet.
void check_values(const Config& config, Verb& verb);

// The file in use, with its keys checked.
Config read_config(const std::vector<Verb*>& verbs);

// Makes required flags optional if the config file sets them. Call it before the command line is parsed.
void relax_required(const Config& config, const std::vector<Verb*>& verbs);

// Sets the flags of `verb` that are not on the command line, and not excluded by a flag that is, to the values of the
// config file. `program`: the flags before the verb.
void apply_config(const Config& config, Verb& verb, const FlagSet& program);

// Every flag of `verb`, including its action, that the command line or the config file sets.
std::vector<GivenFlag> given_flags(const Config& config, Verb& verb, const FlagSet& program);

}  // namespace fk
