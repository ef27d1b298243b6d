// completion: prints the shell completion script, and the names that such a script queries.
#include <fmt/format.h>

#include "cli/completion_scripts.h"
#include "cli/output.h"
#include "cli/value_hint.h"
#include "core/error.h"

namespace fk {
namespace {

class Completion final : public Verb {
 public:
  Completion()
      : Verb("completion", "Print the script that completes command lines in bash, zsh or fish",
             {"fastkernels completion bash > ~/.local/share/bash-completion/completions/fastkernels",
              "fastkernels completion zsh > ~/.zsh/completions/_fastkernels  # a folder of $fpath",
              "fastkernels completion fish > ~/.config/fish/completions/fastkernels.fish"}) {}

  void add_flags(FlagSet& flags) override {
    flags.words("shell", shell_, "Which shell").one_of({"bash", "zsh", "fish"});
    flags.option("--values", values_, "").hidden();  // the names of a kind, for the scripts
    flags.option("--target", target_, "").hidden();
  }

  bool computes() const override { return false; }
  bool takes_config() const override { return false; }

  void run(const CommonOptions&) override {
    if (!values_.empty()) {
      std::string text;
      for (const std::string& name : known_names(values_, target_)) text += name + "\n";
      return print_out(text);
    }
    if (shell_.empty()) throw UsageError("completion needs the shell: bash, zsh or fish");
    print_out(shell_ == "bash"  ? bash_completion(all_verbs())
              : shell_ == "zsh" ? zsh_completion(all_verbs())
                                : fish_completion(all_verbs()));
  }

 private:
  std::string shell_, values_, target_;
};

Completion completion_verb;

}  // namespace

std::vector<const Flag*> named_flags(const FlagSet& set) {
  std::vector<const Flag*> list;
  for (const Flag& flag : set.flags())
    if (!flag.is_hidden() && !flag.is_word()) list.push_back(&flag);
  return list;
}

std::vector<const Flag*> plain_words(const FlagSet& set) {
  std::vector<const Flag*> list;
  for (const Flag& flag : set.flags())
    if (!flag.is_hidden() && flag.is_word()) list.push_back(&flag);
  return list;
}

}  // namespace fk
