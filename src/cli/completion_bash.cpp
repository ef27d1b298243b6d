// The script for bash. It needs neither the package bash-completion nor a bash newer than 4.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "cli/completion_scripts.h"
#include "cli/value_hint.h"

namespace fk {
namespace {

// The patterns of a `case` by what is offered there, so that verbs that share a flag share a line.
using Patterns = std::map<std::string, std::vector<std::string>>;

std::string bash_offer(const ValueHint& hint) {
  std::string command;
  if (!hint.choices.empty()) command += fmt::format("_fastkernels_words '{}'; ", fmt::join(hint.choices, " "));
  if (!hint.ask.empty()) command += fmt::format("_fastkernels_ask {}; ", hint.ask);
  if (hint.files) command += "_fastkernels_paths -f; ";
  if (hint.folders) command += "_fastkernels_paths -d; ";
  return command.empty() ? ":" : command.substr(0, command.size() - 2);
}

void add_values(const FlagSet& set, const std::string& verb, Patterns& patterns, std::vector<std::string>& several) {
  for (const Flag* flag : named_flags(set)) {
    if (flag->kind() == FlagKind::kSwitch) continue;
    for (const std::string& name : flag->name_list()) {
      patterns[bash_offer(value_hint(*flag))].push_back(fmt::format("'{} {}'", verb, name));
      if (flag->takes_several()) several.push_back(fmt::format("'{} {}'", verb, name));
    }
  }
}

std::string flag_names(const FlagSet& set) {
  std::string names;
  for (const Flag* flag : named_flags(set)) names += fmt::format("{} ", fmt::join(flag->name_list(), " "));
  return names;
}

// Words that need no flag: actions, then arguments.
std::string offer_words(const FlagSet& set) {
  std::string command;
  ValueHint actions;
  for (const FlagSet& action : set.actions()) actions.choices.push_back(action.name());
  if (!actions.choices.empty()) command = bash_offer(actions);
  for (const Flag* word : plain_words(set)) {
    std::string more = bash_offer(value_hint(*word));
    command = command.empty() ? more : command + "; " + more;
  }
  return command.empty() ? ":" : command;
}

std::string case_lines(const Patterns& patterns) {
  std::string text;
  for (const auto& [command, list] : patterns) {
    text += fmt::format("    {}", list[0]);
    size_t column = 4 + list[0].size();
    for (size_t i = 1; i < list.size(); ++i) {
      bool wrap = column + list[i].size() > 110;
      text += wrap ? "|\\\n    " + list[i] : "|" + list[i];
      column = (wrap ? 4 : column + 1) + list[i].size();
    }
    text += fmt::format(") {} ;;\n", command);
  }
  return text;
}

constexpr const char* kHelpers = R"bash(# bash completion of fastkernels, printed by `fastkernels completion bash`.

_fastkernels_words() {
  local word
  while read -r word; do COMPREPLY+=("$word"); done < <(compgen -W "$1" -- "$cur")
}

_fastkernels_paths() {
  local path
  compopt -o filenames 2>/dev/null
  while read -r path; do COMPREPLY+=("$path"); done < <(compgen "$1" -- "$cur")
}

# Names that depend on this machine or this version.
_fastkernels_ask() {
  local arguments=(--values "$1")
  [ -n "$target" ] && arguments+=(--target "$target")
  _fastkernels_words "$("${COMP_WORDS[0]/#\~/$HOME}" completion "${arguments[@]}" 2>/dev/null)"
}

)bash";

constexpr const char* kMain = R"bash(_fastkernels() {
  local cur=${COMP_WORDS[COMP_CWORD]} verb='' action='' flag='' target='' fresh='' word i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    case "$word" in
      '=') fresh=1; continue ;;  # bash makes --flag=value three words
      -*) flag=$word; fresh=1 ;;
      *)
        if [ -n "$flag" ] && _fastkernels_takes_value "$verb" "$flag" && [ -n "$fresh" ]; then
          [ "$flag" = --target ] && target=$word
          _fastkernels_takes_several "$verb" "$flag" || flag=''
          fresh=''
        elif [ -n "$flag" ] && _fastkernels_takes_several "$verb" "$flag"; then
          :
        elif [ -z "$verb" ]; then
          verb=$word flag=''
        elif [ -z "$action" ] && _fastkernels_is_action "$verb" "$word"; then
          action=$word flag=''
        else
          flag=''
        fi ;;
    esac
  done
  [ "$cur" = '=' ] && cur=''
  if [ -n "$flag" ] && _fastkernels_takes_value "$verb" "$flag"; then
    if [ -n "$fresh" ] || [[ $cur != -* ]]; then
      _fastkernels_value "$verb" "$flag"
      return 0
    fi
  fi
  if [[ $cur == -* ]]; then
    _fastkernels_flags "$verb" "$action"
  elif [ -z "$verb" ]; then
    _fastkernels_verbs
  else
    _fastkernels_plain "$verb" "$action"
  fi
  return 0
}

complete -F _fastkernels fastkernels kb_nano
)bash";

}  // namespace

std::string bash_completion(const std::vector<Verb*>& verbs) {
  Patterns values, flags, plain;
  std::vector<std::string> several, names, actions;
  for (Verb* verb : verbs) {
    const FlagSet& set = verb->flags();
    names.push_back(verb->name());
    add_values(set, verb->name(), values, several);
    std::string own = flag_names(set);
    flags[fmt::format("_fastkernels_words '{}--help'", own)].push_back(fmt::format("'{} '", verb->name()));
    plain[offer_words(set)].push_back(fmt::format("'{} '", verb->name()));
    for (const FlagSet& action : set.actions()) {
      std::string both = fmt::format("'{} {}'", verb->name(), action.name());
      actions.push_back(both);
      add_values(action, verb->name(), values, several);
      flags[fmt::format("_fastkernels_words '{}{}--help'", flag_names(action), own)].push_back(both);
      plain[offer_words(action)].push_back(both);
    }
  }
  // Before the verb only the flags of every verb are allowed; each verb has them.
  std::string common;
  for (const Flag* flag : named_flags(verbs.front()->flags())) {
    if (flag->group() != kCommonGroup) continue;
    common += flag->name_list()[0] + " ";
    if (flag->kind() != FlagKind::kSwitch)
      values[bash_offer(value_hint(*flag))].push_back(fmt::format("' {}'", flag->name_list()[0]));
  }
  flags[fmt::format("_fastkernels_words '{}--help --version'", common)].push_back("' '");
  std::string takes_value;
  for (const auto& [command, list] : values)
    takes_value += fmt::format("{}{}", takes_value.empty() ? "" : "|\\\n    ", fmt::join(list, "|\\\n    "));
  auto function = [](const std::string& name, const std::string& lines) {
    return fmt::format("_fastkernels_{}() {{\n  case \"$1 $2\" in\n{}  esac\n}}\n\n", name, lines);
  };
  auto question = [&](const std::string& name, const std::string& list) {
    return function(name, fmt::format("    {}) return 0 ;;\n    *) return 1 ;;\n", list.empty() ? "''" : list));
  };
  return kHelpers + fmt::format("_fastkernels_verbs() {{ _fastkernels_words '{}'; }}\n\n", fmt::join(names, " ")) +
         function("flags", case_lines(flags)) + function("plain", case_lines(plain)) +
         function("value", case_lines(values)) + question("takes_value", takes_value) +
         question("takes_several", fmt::format("{}", fmt::join(several, "|\\\n    "))) +
         question("is_action", fmt::format("{}", fmt::join(actions, "|\\\n    "))) + kMain;
}

}  // namespace fk
