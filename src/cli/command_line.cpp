// Parses the command line. The only file that includes CLI11, whose header takes many seconds to compile.
#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <optional>
#include <type_traits>
#include <vector>

#include "core/closest.h"
#include "core/error.h"

namespace fk {
namespace {

using Options = std::map<Flag*, CLI::Option*>;

CLI::Option* bind_target(CLI::App& app, const Flag& flag) {
  return std::visit(
      [&](const auto& target) -> CLI::Option* {
        using T = std::decay_t<decltype(target)>;
        if constexpr (std::is_same_v<T, bool*>)
          return app.add_flag(flag.names(), *target, flag.help());
        else if constexpr (std::is_same_v<T, FlagReader>)
          return app.add_option_function<std::string>(flag.names(), target, flag.help());
        else
          return app.add_option(flag.names(), *target, flag.help());
      },
      flag.target());
}

void add_option(CLI::App& app, Flag& flag, Options& options) {
  CLI::Option* option = bind_target(app, flag);
  // CLI11 reads no text as 0, which `--flag "$UNSET"` would pass silently.
  if (flag.kind() == FlagKind::kNumber || flag.kind() == FlagKind::kWholeNumber)
    option->check(CLI::Validator([](std::string& text) { return text.empty() ? "give a number" : std::string(); }, ""));
  if (flag.range()) {
    CLI::Range range(flag.range()->first, flag.range()->second);
    option->check(flag.type_name().empty() ? range : range.description(""));
  }
  if (!flag.choices().empty()) option->check(CLI::IsMember(flag.choices()));
  if (flag.is_existing_file()) option->check(CLI::ExistingFile);
  if (flag.complaint())
    option->check(CLI::Validator([complaint = flag.complaint()](std::string& text) { return complaint(text); }, ""));
  if (!flag.type_name().empty()) option->type_name(flag.type_name());
  if (flag.shows_default()) option->capture_default_str();
  if (flag.excluded() != nullptr) option->excludes(options.at(flag.excluded()));
  if (flag.count() > 0) option->expected(flag.count());
  if (!flag.group().empty()) option->group(flag.group());
  if (flag.is_hidden()) option->group("");
  option->required(flag.is_required());
  options[&flag] = option;
}

void add_flags(CLI::App& app, FlagSet& set, Options& options) {
  for (Flag& flag : set.flags()) add_option(app, flag, options);
  for (FlagSet& action : set.actions()) {
    CLI::App* sub = app.add_subcommand(action.name(), action.summary());
    sub->fallthrough();
    sub->callback([&action] { *action.chosen() = action.name(); });
    add_flags(*sub, action, options);
  }
}

std::string examples_text(const std::vector<std::string>& examples) {
  std::string text = "Examples:";
  for (const std::string& example : examples) text += "\n  " + example;
  return text;
}

UsageError unknown_verb(const std::string& word) {
  std::vector<std::string> names;
  for (const Verb* verb : all_verbs()) names.push_back(verb->name());
  return UsageError("there is no verb `{}`{} `fastkernels --help` lists all", word, did_you_mean(word, names));
}

// The verb on the command line, or "fastkernels": the command whose help an error names.
std::string spoken_to(const CLI::App& app) {
  auto parsed = app.get_subcommands();
  return app.get_name() + (parsed.empty() ? "" : " " + spoken_to(*parsed.front()));
}

// Long names of this app's flags and of its parsed subcommands', without dashes.
void add_flag_names(const CLI::App& app, std::vector<std::string>& names) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  for (const CLI::App* parsed : app.get_subcommands()) add_flag_names(*parsed, names);
}

// The error for the first unknown flag, if there is one. Names of one or two letters get no suggestion: they are
// similar to any name.
std::optional<std::string> unknown_flag(const CLI::App& app) {
  constexpr size_t kTelling = 3;
  for (const std::string& word : app.remaining(true)) {
    if (word.size() < 2 || word[0] != '-' || word == "--") continue;
    std::string flag = word.substr(0, word.find('='));
    std::string name = flag.substr(std::min(flag.find_first_not_of('-'), flag.size()));
    auto parsed = app.get_subcommands();
    std::vector<std::string> known, near;
    add_flag_names(parsed.empty() ? app : *parsed.front(), known);
    if (name.size() >= kTelling) near = closest_names(name, known, 1);
    return fmt::format("there is no flag {}{} `{} --help` lists all", flag,
                       near.empty() ? ";" : fmt::format(", did you mean --{}?", near[0]), spoken_to(app));
  }
  return std::nullopt;
}

}  // namespace

CommandLine read_command_line(int argc, char** argv, FlagSet& program) {
  CLI::App app("Judges and times compute kernels inside real models.", "fastkernels");
  app.set_version_flag("--version", "fastkernels " FK_VERSION, "Print the version");
  app.footer("`fastkernels <verb> --help` shows the flags of a verb and examples.");
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  app.require_subcommand(0, 1);
  Options options;
  add_flags(app, program, options);
  app.set_help_flag("--help,-h", "Print this help")->group(kCommonGroup);
  std::map<const CLI::App*, Verb*> verbs;
  for (Verb* verb : all_verbs()) {
    CLI::App* sub = app.add_subcommand(verb->name(), verb->summary());
    sub->group("Verbs");
    sub->footer(examples_text(verb->examples()));
    add_flags(*sub, verb->flags(), options);
    sub->set_help_flag("--help,-h", "Print this help")->group(kCommonGroup);
    verbs[sub] = verb;
  }
  app.allow_extras();  // an unknown verb gets its sentence below; set last, since verbs would inherit it
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return {.asked = app.help()};  // of the verb, where one was named
  } catch (const CLI::CallForVersion& version) {
    return {.asked = std::string(version.what()) + "\n"};
  } catch (const CLI::ParseError& error) {
    throw UsageError("{}",
                     unknown_flag(app).value_or(fmt::format("{}; see `{} --help`", error.what(), spoken_to(app))));
  }
  auto parsed = app.get_subcommands();
  std::vector<std::string> extras = app.remaining();
  if (!extras.empty() && parsed.empty() && extras[0].substr(0, 1) != "-") throw unknown_verb(extras[0]);
  if (std::optional<std::string> sentence = unknown_flag(app)) throw UsageError("{}", *sentence);
  if (!extras.empty()) throw UsageError("`{}` was not expected; see `{} --help`", extras[0], spoken_to(app));
  for (auto [flag, option] : options) flag->set_given(option->results());
  if (parsed.empty()) return {.help = app.help()};
  return {.verb = verbs.at(parsed.front())};
}

}  // namespace fk
