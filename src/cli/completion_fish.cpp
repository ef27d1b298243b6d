// The script for fish: one `complete` line per flag, with the condition that its verb comes before it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/completion_scripts.h"
#include "cli/value_hint.h"

namespace fk {
namespace {

// Fish has two escapes inside single quotes.
std::string in_quotes(const std::string& text) {
  std::string safe = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') safe += '\\';
    safe += c;
  }
  return safe + "'";
}

// -f: no files; -r: a value follows; -x: both.
std::string fish_offer(const ValueHint& hint) {
  if (hint.files) return " -r -F";
  std::string from;
  if (!hint.choices.empty()) from = fmt::format("{}", fmt::join(hint.choices, " "));
  if (!hint.ask.empty()) from = fmt::format("(__fastkernels_ask {})", hint.ask);
  if (hint.folders) from += fmt::format("{}(__fish_complete_directories)", from.empty() ? "" : " ");
  return from.empty() ? " -x" : " -x -a " + in_quotes(from);
}

std::string flag_lines(const FlagSet& set, const std::string& condition, const char* only_group) {
  std::string text;
  for (const Flag* flag : named_flags(set)) {
    if (only_group != nullptr && flag->group() != only_group) continue;
    for (const std::string& name : flag->name_list())
      text +=
          fmt::format("complete -c fastkernels -n {} -l {}{} -d {}\n", in_quotes(condition), name.substr(2),
                      flag->kind() == FlagKind::kSwitch ? "" : fish_offer(value_hint(*flag)), in_quotes(flag->help()));
  }
  return text + fmt::format("complete -c fastkernels -n {} -s h -l help -d 'Print this help'\n", in_quotes(condition));
}

std::string word_lines(const FlagSet& set, const std::string& condition) {
  std::string text;
  for (const Flag* word : plain_words(set)) {
    ValueHint hint = value_hint(*word);
    if (hint == ValueHint{}) continue;
    text += fmt::format("complete -c fastkernels -n {}{} -d {}\n", in_quotes(condition),
                        hint.files ? " -F" : fish_offer(hint).replace(1, 2, "-f"), in_quotes(word->help()));
  }
  return text;
}

constexpr const char* kFishHead = R"fish(# fish completion of fastkernels, printed by `fastkernels completion fish`.

# The verb, then its action, on the command line so far; flags and their values are skipped by being no verb.
function __fastkernels_is
    set -l words (commandline -opc)
    set -e words[1]
    set -l verb
    set -l action
    for word in $words
        if test -z "$verb"
            contains -- $word $__fastkernels_verbs; and set verb $word
        else if test -z "$action"
            contains -- "$verb $word" $__fastkernels_actions; and set action $word
        end
    end
    test "$verb $action" = "$argv[1] $argv[2]"; or test "$verb" = "$argv[1]" -a "$argv[2]" = any
end

# Names that depend on this machine or this version.
function __fastkernels_ask
    set -l words (commandline -opc)
    set -l arguments --values $argv[1]
    set -l at (contains -i -- --target $words)
    and set -q words[(math $at + 1)]
    and set -a arguments --target $words[(math $at + 1)]
    eval $words[1] completion $arguments 2>/dev/null
end

complete -c fastkernels -f
complete -c kb_nano -w fastkernels
)fish";

}  // namespace

std::string fish_completion(const std::vector<Verb*>& verbs) {
  std::string lines;
  std::vector<std::string> names, actions;
  for (Verb* verb : verbs) {
    const FlagSet& set = verb->flags();
    names.push_back(verb->name());
    lines += fmt::format("\ncomplete -c fastkernels -n '__fastkernels_is \"\" \"\"' -a {} -d {}\n", verb->name(),
                         in_quotes(verb->summary()));
    lines += flag_lines(set, fmt::format("__fastkernels_is {} any", verb->name()), nullptr);
    lines += word_lines(set, fmt::format("__fastkernels_is {} \"\"", verb->name()));
    for (const FlagSet& action : set.actions()) {
      std::string here = fmt::format("__fastkernels_is {} {}", verb->name(), action.name());
      actions.push_back(in_quotes(verb->name() + " " + action.name()));
      lines += fmt::format("complete -c fastkernels -n '__fastkernels_is {} \"\"' -a {} -d {}\n", verb->name(),
                           action.name(), in_quotes(action.summary()));
      for (const Flag* flag : named_flags(action))
        lines += fmt::format(
            "complete -c fastkernels -n {} -l {}{} -d {}\n", in_quotes(here), flag->name_list()[0].substr(2),
            flag->kind() == FlagKind::kSwitch ? "" : fish_offer(value_hint(*flag)), in_quotes(flag->help()));
      lines += word_lines(action, here);
    }
  }
  lines += "\n" + flag_lines(verbs.front()->flags(), "__fastkernels_is \"\" \"\"", kCommonGroup);
  lines += "complete -c fastkernels -n '__fastkernels_is \"\" \"\"' -l version -d 'Print the version'\n";
  return kFishHead +
         fmt::format("set -g __fastkernels_verbs {}\nset -g __fastkernels_actions {}\n", fmt::join(names, " "),
                     fmt::join(actions, " ")) +
         lines;
}

}  // namespace fk
