// config: which config file is in use, what it sets, and with a verb's name, every flag of that verb with its value.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/config_file.h"
#include "cli/output.h"
#include "cli/table.h"
#include "core/closest.h"
#include "core/error.h"

namespace fk {
namespace {

class ShowConfig final : public Verb {
 public:
  ShowConfig()
      : Verb("config", "Show the config file in use and what it sets",
             {"fastkernels config", "fastkernels config kernels",
              "FASTKERNELS_CONFIG=other.yaml fastkernels config --json"}) {}

  void add_flags(FlagSet& flags) override {
    flags.words("verb", verb_, "Show every flag of this verb, its value, and where that comes from");
  }

  bool computes() const override { return false; }
  bool takes_config() const override { return false; }  // it shows the file instead

  void run(const CommonOptions& common) override {
    Config config = read_config(all_verbs());
    for (Verb* verb : all_verbs())
      if (verb->takes_config()) check_values(config, *verb);
    Table table({{"verb", "VERB"}, {"flag", "FLAG"}, {"value", "VALUE"}, {"from", "FROM"}});
    if (verb_.empty())
      for (const Setting& s : config.settings)
        table.add_row({s.verb.empty() ? "every" : s.verb, "--" + s.key, s.value(), config.place(s)});
    else
      add_flags_of(named_verb(), config, table);
    if (!common.text()) return table.print(common);
    if (config.path.empty())
      print_out(fmt::format("There is no config file; it would be {}.\n", looked_for()));
    else
      print_out(fmt::format("The config file is {}.\n", config.path));
    if (table.rows() > 0) print_out("\n" + table.to_text());
  }

 private:
  Verb& named_verb() const {
    std::vector<std::string> names;
    for (Verb* verb : all_verbs()) {
      if (verb->name() == verb_) return *verb;
      names.push_back(verb->name());
    }
    throw UsageError("there is no verb `{}`{} `fastkernels --help` lists all", verb_, did_you_mean(verb_, names));
  }

  static void add_flags_of(Verb& verb, const Config& config, Table& table) {
    for (const Flag& flag : verb.flags().flags()) {
      if (flag.is_word() || flag.is_hidden()) continue;
      const Setting* setting = verb.takes_config() ? config.find(verb, flag) : nullptr;
      std::string value = setting == nullptr ? flag.value() : setting->value();
      table.add_row({verb.name(), setting == nullptr ? flag.name_list()[0] : "--" + setting->key,
                     value.empty() ? Cell() : Cell(value), setting == nullptr ? "default" : config.place(*setting)});
    }
  }

  static std::string looked_for() {
    std::vector<std::string> places = config_places();
    if (places.empty()) return "what FASTKERNELS_CONFIG names, which is set to nothing";
    return fmt::format("{}", fmt::join(places, ", or else "));
  }

  std::string verb_;
};

ShowConfig show_config;

}  // namespace
}  // namespace fk
