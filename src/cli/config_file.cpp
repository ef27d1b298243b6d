#include "cli/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "cli/flag_value.h"
#include "core/closest.h"
#include "core/environment_variable.h"
#include "core/error.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

// Larger than any real config file; refuses /dev/zero.
constexpr size_t kMaxBytes = 1 << 20;

bool is_flag_of(const Flag& flag, const std::string& key) {
  std::vector<std::string> names = flag.name_list();
  return !flag.is_word() && !flag.is_hidden() && std::find(names.begin(), names.end(), "--" + key) != names.end();
}

std::vector<std::string> keys_of(Verb& verb, std::vector<std::string> keys) {
  for (const Flag& flag : verb.flags().flags())
    if (!flag.is_word() && !flag.is_hidden())
      for (const std::string& name : flag.name_list())
        if (name.starts_with("--")) keys.push_back(name.substr(2));
  return keys;
}

const Flag* flag_of(Verb& verb, const std::string& key) {
  for (const Flag& flag : verb.flags().flags())
    if (is_flag_of(flag, key)) return &flag;
  return nullptr;
}

std::vector<std::string> scalars(const YAML::Node& node, const std::string& key, const std::string& path) {
  auto fail = [&](const char* what) {
    return UsageError("{}:{}: {} {}; give a value, or a list of values in [ ]", path, node.Mark().line + 1, key, what);
  };
  if (node.IsScalar()) return {node.Scalar()};
  if (!node.IsSequence()) throw fail("has no value");
  std::vector<std::string> values;
  for (const YAML::Node& item : node) {
    if (!item.IsScalar()) throw fail("holds something that is not a value");
    values.push_back(item.Scalar());
  }
  if (values.empty()) throw fail("has no value");
  return values;
}

void add_settings(Config& config, const YAML::Node& map, const std::string& verb) {
  std::set<std::string> seen;
  for (const auto& item : map) {
    int line = item.first.Mark().line + 1;
    if (!item.first.IsScalar()) throw UsageError("{}:{}: a key must be the name of a flag", config.path, line);
    std::string key = item.first.Scalar();
    if (!seen.insert(key).second) throw UsageError("{}:{}: {} is there twice", config.path, line, key);
    if (item.second.IsMap()) {
      if (!verb.empty()) throw UsageError("{}:{}: {} must have a value", config.path, line, key);
      add_settings(config, item.second, key);
    } else {
      config.settings.push_back({verb, key, scalars(item.second, key, config.path), line});
    }
  }
}

// Flags of every verb are also allowed before the verb.
bool given_to(const FlagSet& program, const Flag& flag) {
  if (flag.given()) return true;
  if (flag.group() != kCommonGroup) return false;
  const Flag* before_verb = program.find(flag.name_list()[0]);
  return before_verb != nullptr && before_verb->given();
}

}  // namespace

std::string Setting::value() const { return fmt::format("{}", fmt::join(values, " ")); }

const Setting* Config::find(const Verb& verb, const Flag& flag) const {
  const Setting* found = nullptr;
  for (const Setting& s : settings) {
    if (!is_flag_of(flag, s.key) || (!s.verb.empty() && s.verb != verb.name())) continue;
    // `history --device` selects runs, so a device set for every verb does not apply to it.
    if (s.verb.empty() && common.contains(s.key) && flag.group() != kCommonGroup) continue;
    if (found == nullptr || !s.verb.empty()) found = &s;
  }
  return found;
}

std::string Config::place(const Setting& setting) const { return fmt::format("{}:{}", path, setting.line); }

std::vector<std::string> config_places() {
  if (const char* named = std::getenv("FASTKERNELS_CONFIG"); named != nullptr)
    return *named == 0 ? std::vector<std::string>() : std::vector<std::string>{named};
  std::vector<std::string> places = {"fastkernels.yaml"};
  if (std::string folder = environment_variable("XDG_CONFIG_HOME"); !folder.empty())
    places.push_back(folder + "/fastkernels/config.yaml");
  else if (std::string home = environment_variable("HOME"); !home.empty())
    places.push_back(home + "/.config/fastkernels/config.yaml");
  return places;
}

Config parse_config(std::string_view text, const std::string& path) {
  Config config{path, {}, {}};
  try {
    std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() > 1) throw UsageError("{} holds several YAML documents; leave one", path);
    if (documents.empty() || documents[0].IsNull()) return config;  // empty, or comments only
    if (!documents[0].IsMap())
      throw UsageError("{} is no list of `flag: value` lines; docs/install.md has an example", path);
    add_settings(config, documents[0], "");
  } catch (const YAML::Exception& e) {
    throw UsageError("{}:{}: this is no YAML ({})", path, e.mark.line + 1, e.msg);
  }
  return config;
}

void check_keys(Config& config, const std::vector<Verb*>& verbs) {
  for (const Setting& setting : config.settings) {
    std::vector<std::string> known;  // keys that are allowed there
    bool verb_known = setting.verb.empty(), found = false;
    for (Verb* verb : verbs) {
      if (!verb->takes_config()) continue;
      if (!setting.verb.empty() && verb->name() != setting.verb) continue;
      verb_known = true;
      known = keys_of(*verb, std::move(known));
      const Flag* flag = flag_of(*verb, setting.key);
      found = found || flag != nullptr;
      if (flag != nullptr && flag->group() == kCommonGroup) config.common.insert(setting.key);
    }
    if (!verb_known) {
      for (Verb* verb : verbs) known.push_back(verb->name());
      throw UsageError("{}: there is no verb {}{} `fastkernels --help` lists all", config.place(setting), setting.verb,
                       did_you_mean(setting.verb, known));
    }
    if (found) continue;
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    std::string whose = setting.verb.empty() ? "no verb" : setting.verb;
    throw UsageError("{}: {} has {}flag --{}{} `fastkernels {}--help` lists all", config.place(setting), whose,
                     setting.verb.empty() ? "the " : "no ", setting.key, did_you_mean(setting.key, known),
                     setting.verb.empty() ? "VERB " : setting.verb + " ");
  }
}

void check_values(const Config& config, Verb& verb) {
  for (const Flag& flag : verb.flags().flags())
    if (const Setting* setting = config.find(verb, flag))
      if (std::string what = complaint_about(flag, setting->values); !what.empty())
        throw UsageError("{}: {} of {}: {}", config.place(*setting), setting->key, verb.name(), what);
}

Config read_config(const std::vector<Verb*>& verbs) {
  std::error_code error;
  std::vector<std::string> places = config_places();
  auto there = std::find_if(places.begin(), places.end(), [&](const std::string& p) { return fs::exists(p, error); });
  if (there == places.end()) {
    if (std::getenv("FASTKERNELS_CONFIG") == nullptr || places.empty()) return {};
    throw UsageError("FASTKERNELS_CONFIG names {}, which is not there; name another file, or unset it", places[0]);
  }
  std::string text;
  // Checked before it is opened: opening a pipe blocks until there is a writer.
  std::ifstream in;
  if (fs::is_regular_file(*there, error)) in.open(*there, std::ios::binary);
  if (in.is_open()) {
    std::copy_n(std::istreambuf_iterator<char>(in), std::min<size_t>(kMaxBytes + 1, fs::file_size(*there, error)),
                std::back_inserter(text));
  } else {
    throw UsageError("The config file {} cannot be read; make it a readable file, or set FASTKERNELS_CONFIG", *there);
  }
  if (text.size() > kMaxBytes) throw UsageError("The config file {} is larger than 1 MiB; make it shorter", *there);
  Config config = parse_config(text, *there);
  check_keys(config, verbs);
  return config;
}

void relax_required(const Config& config, const std::vector<Verb*>& verbs) {
  for (Verb* verb : verbs) {
    if (!verb->takes_config()) continue;
    for (Flag& flag : verb->flags().flags())
      if (config.find(*verb, flag) != nullptr) flag.required(false);
  }
}

void apply_config(const Config& config, Verb& verb, const FlagSet& program) {
  check_values(config, verb);
  std::deque<Flag>& flags = verb.flags().flags();
  std::set<const Flag*> typed;  // on the command line
  for (const Flag& flag : flags)
    if (given_to(program, flag)) typed.insert(&flag);
  std::set<const Flag*> excluded;
  for (const Flag& flag : flags) {
    if (typed.contains(&flag) && flag.excluded() != nullptr) excluded.insert(flag.excluded());
    if (flag.excluded() != nullptr && typed.contains(flag.excluded())) excluded.insert(&flag);
  }
  for (Flag& flag : flags) {
    const Setting* setting = config.find(verb, flag);
    if (setting == nullptr || typed.contains(&flag) || excluded.contains(&flag)) continue;
    if (flag.excluded() != nullptr && flag.excluded()->given() && !typed.contains(flag.excluded()))
      throw UsageError("{}: {} and {} exclude each other; leave one", config.place(*setting), setting->key,
                       flag.excluded()->name_list()[0].substr(2));
    try {
      set_flag(flag, "--" + setting->key, setting->values);
    } catch (const UsageError& e) {  // from a flag that parses its text itself
      throw UsageError("{}: {}", config.place(*setting), e.what());
    }
  }
}

std::vector<GivenFlag> given_flags(const Config& config, Verb& verb, const FlagSet& program) {
  std::vector<GivenFlag> list;
  auto add = [&](const Flag& flag, const std::string& from) {
    if (!flag.is_hidden()) list.push_back({flag.name_list()[0], fmt::format("{}", fmt::join(flag.texts(), " ")), from});
  };
  // The value comes from the config file: apply_config does not change flags of the command line.
  for (const Flag& flag : verb.flags().flags()) {
    const Flag* before_verb = flag.group() == kCommonGroup ? program.find(flag.name_list()[0]) : nullptr;
    if (flag.given()) {
      const Setting* setting = config.find(verb, flag);
      bool from_config = setting != nullptr && flag.from_config();
      add(flag, from_config ? config.place(*setting) : kCommandLine);
    } else if (before_verb != nullptr && before_verb->given()) {
      add(*before_verb, kCommandLine);
    }
  }
  for (const FlagSet& action : verb.flags().actions())
    for (const Flag& flag : action.flags())
      if (flag.given()) add(flag, kCommandLine);
  return list;
}

}  // namespace fk
