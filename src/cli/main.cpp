// fastkernels <verb>: parses the command line, runs one verb, turns what went wrong into one sentence and an exit code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/exit_code.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/verb.h"
#include "core/closest.h"
#include "core/error.h"
#include "core/thread_pool.h"

namespace fk {
namespace {

UsageError unknown_verb(const std::string& word) {
  std::vector<std::string> names;
  for (const Verb* verb : all_verbs()) names.push_back(verb->name());
  return UsageError("there is no verb `{}`{} `fastkernels --help` lists all", word, did_you_mean(word, names));
}

std::string footer(const std::vector<std::string>& examples) {
  std::string text = "Examples:";
  for (const std::string& example : examples) text += "\n  " + example;
  return text;
}

// The verb on the command line, or "fastkernels" itself: whose help to point at.
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

// The sentence for the first flag that nobody knows, where there is one. Names of one or two letters are like any
// other.
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

int run(int argc, char** argv) {
  CommonOptions common;
  common.threads = std::min(usable_cores(), kMaxThreads);
  CLI::App app("Judges and times compute kernels inside real models.", "fastkernels");
  app.set_version_flag("--version", "fastkernels " FK_VERSION, "Print the version");
  app.footer("`fastkernels <verb> --help` shows the flags of a verb and examples.");
  app.get_formatter()->label("SUBCOMMAND", "VERB");
  app.require_subcommand(0, 1);
  add_common_options(app, common);
  std::map<const CLI::App*, Verb*> verbs;
  for (Verb* verb : all_verbs()) {
    CLI::App* sub = app.add_subcommand(verb->name(), verb->summary());
    sub->group("Verbs");
    sub->footer(footer(verb->examples()));
    verb->add_flags(*sub);
    add_common_options(*sub, common);
    verbs[sub] = verb;
  }
  app.allow_extras();  // an unknown verb gets its sentence below; set last, since verbs would inherit it
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    print_out(app.help());  // of the verb, where one was named
    return kOk;
  } catch (const CLI::CallForVersion& version) {
    print_out(std::string(version.what()) + "\n");
    return kOk;
  } catch (const CLI::ParseError& error) {
    return fail(kBadFlags,
                unknown_flag(app).value_or(fmt::format("{}; see `{} --help`", error.what(), spoken_to(app))));
  }
  auto parsed = app.get_subcommands();
  std::vector<std::string> extras = app.remaining();
  if (!extras.empty() && parsed.empty() && extras[0].substr(0, 1) != "-") throw unknown_verb(extras[0]);
  if (std::optional<std::string> sentence = unknown_flag(app)) throw UsageError("{}", *sentence);
  if (!extras.empty()) throw UsageError("`{}` was not expected; see `{} --help`", extras[0], spoken_to(app));
  check_common_options(common, !parsed.empty() && verbs.at(parsed.front())->computes());
  if (parsed.empty()) {
    std::fputs(app.help().c_str(), stderr);
    return kBadFlags;
  }
  verbs.at(parsed.front())->run(common);
  return kOk;
}

}  // namespace
}  // namespace fk

int main(int argc, char** argv) {
  // A closed pipe is an error code of write(), handled in print_out; as a signal it would kill us in mid-verb.
  std::signal(SIGPIPE, SIG_IGN);
  fk::end_cleanly_on_signals();
  return fk::exit_code_of([&] { return fk::run(argc, argv); });
}
