// The script for zsh: one function per verb, with its flags as specs for zsh's _arguments.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/completion_scripts.h"
#include "cli/value_hint.h"

namespace fk {
namespace {

// Escapes text inside single quotes, where colons and brackets separate the parts of a spec.
std::string escaped(const std::string& text) {
  std::string safe;
  for (char c : text) {
    if (c == '\'')
      safe += "'\\''";
    else if (c == ':' || c == '[' || c == ']' || c == '\\')
      safe += std::string("\\") + c;
    else
      safe += c;
  }
  return safe;
}

std::string zsh_offer(const ValueHint& hint) {
  std::vector<std::string> ways;
  if (!hint.choices.empty()) return fmt::format("({})", fmt::join(hint.choices, " "));
  if (!hint.ask.empty()) ways.push_back("_fastkernels_ask " + hint.ask);
  if (hint.files) ways.emplace_back("_files");
  if (hint.folders) ways.emplace_back("_files -/");
  if (ways.empty()) return "";
  if (ways.size() == 1) return ways[0];
  // Both names and folders: _alternative would need more levels of quotes than a spec allows.
  return "_fastkernels_ask_or_folder " + hint.ask;
}

// '--level=[Only this level]:level:(1 2 3 4)', a value after = or after a blank.
std::string spec(const Flag& flag, const std::string& name) {
  std::string several = flag.takes_several() ? "*" : "";
  if (flag.kind() == FlagKind::kSwitch) return fmt::format("    '{}[{}]' \\\n", name, escaped(flag.help()));
  std::string label = flag.type_name().empty() ? name.substr(name.find_first_not_of('-')) : flag.type_name();
  return fmt::format("    '{}{}=[{}]:{}:{}' \\\n", several, name, escaped(flag.help()), escaped(label),
                     zsh_offer(value_hint(flag)));
}

std::string flag_specs(const FlagSet& set) {
  std::string text;
  for (const Flag* flag : named_flags(set))
    for (const std::string& name : flag->name_list()) text += spec(*flag, name);
  return text + "    '(-)'{-h,--help}'[Print this help]' \\\n";
}

std::string word_specs(const FlagSet& set) {
  std::string text;
  for (const Flag* word : plain_words(set))
    text += fmt::format("    '{}:{}:{}' \\\n", word->takes_several() || word->count() > 1 ? "*" : "1",
                        escaped(word->name_list()[0]), zsh_offer(value_hint(*word)));
  return text;
}

std::string without_last_backslash(std::string specs) { return specs.substr(0, specs.size() - 3) + "\n"; }

std::string described(const std::string& name, const std::string& help) {
  return fmt::format("    '{}:{}'\n", name, escaped(help));
}

// A verb without actions, or one action: after its own name come its flags and words.
std::string leaf(const std::string& function, const FlagSet& set, const std::string& more_flags) {
  return fmt::format("{}() {{\n  _arguments \\\n{}}}\n\n", function,
                     without_last_backslash(more_flags + flag_specs(set) + word_specs(set)));
}

std::string verb_function(Verb& verb) {
  const FlagSet& set = verb.flags();
  std::string function = "_fastkernels_" + verb.name();
  if (set.actions().empty()) return leaf(function, set, "");
  std::string own, text, names;
  for (const Flag* flag : named_flags(set))
    for (const std::string& name : flag->name_list()) own += spec(*flag, name);
  for (const FlagSet& action : set.actions()) {
    text += leaf(function + "_" + action.name(), action, own);
    names += described(action.name(), action.summary());
  }
  return text + fmt::format(
                    "{0}() {{\n  local curcontext=$curcontext state line\n  typeset -A opt_args\n  local -a "
                    "actions=(\n{1}  )\n"
                    "  _arguments -C \\\n{2}    '1:action:->action' '*::argument:->argument'\n  case $state in\n"
                    "    action) _describe action actions ;;\n"
                    "    argument) (( $+functions[{0}_$line[1]] )) && {0}_$line[1] ;;\n  esac\n}}\n\n",
                    function, names, flag_specs(set));
}

constexpr const char* kZshHead = R"zsh(#compdef fastkernels kb_nano
# zsh completion of fastkernels, printed by `fastkernels completion zsh`.

# Names that depend on this machine or this version. zsh puts options for compadd before the arguments of a spec.
_fastkernels_ask() {
  local kind=$argv[-1] target=${opt_args[--target]}
  local -a names arguments=(completion --values $kind)
  [[ -n $target ]] && arguments+=(--target $target)
  names=(${(f)"$(${(Q)~_fastkernels_program} $arguments 2>/dev/null)"})
  compadd "${@[1,-2]}" -a names
}

_fastkernels_ask_or_folder() {
  _alternative "names:name:_fastkernels_ask $argv[-1]" 'folders:folder:_files -/'
}

)zsh";

}  // namespace

std::string zsh_completion(const std::vector<Verb*>& verbs) {
  std::string text = kZshHead, names, common;
  for (Verb* verb : verbs) {
    text += verb_function(*verb);
    names += described(verb->name(), verb->summary());
  }
  for (const Flag* flag : named_flags(verbs.front()->flags()))
    if (flag->group() == kCommonGroup) common += spec(*flag, flag->name_list()[0]);
  return text + fmt::format(R"zsh(_fastkernels() {{
  local curcontext=$curcontext state line _fastkernels_program=$words[1]
  typeset -A opt_args
  local -a verbs=(
{}  )
  _arguments -C \
{}    '(-)--version[Print the version]' '(-)'{{-h,--help}}'[Print this help]' \
    '1:verb:->verb' '*::argument:->argument'
  case $state in
    verb) _describe verb verbs ;;
    argument) (( $+functions[_fastkernels_$line[1]] )) && _fastkernels_$line[1] ;;
  esac
}}

# Sourced, it registers itself; from a folder of $fpath, it is the function's first call.
if [[ $funcstack[1] == _fastkernels ]]; then
  _fastkernels "$@"
else
  compdef _fastkernels fastkernels kb_nano
fi
)zsh",
                            names, common);
}

}  // namespace fk
