// Scripts that complete our command line in shells, made from the description of all verbs.
#pragma once

#include <string>
#include <vector>

#include "cli/verb.h"

namespace fk {

// `verbs` with all their flags, the common ones included. Each script works for fastkernels and kb_nano, and calls
// `fastkernels completion --values KIND` for names that are only known at run time.
std::string bash_completion(const std::vector<Verb*>& verbs);
std::string zsh_completion(const std::vector<Verb*>& verbs);
std::string fish_completion(const std::vector<Verb*>& verbs);

// What the scripts list: flags that are not hidden and need a name, and the words that need none.
std::vector<const Flag*> named_flags(const FlagSet& set);
std::vector<const Flag*> plain_words(const FlagSet& set);

}  // namespace fk
