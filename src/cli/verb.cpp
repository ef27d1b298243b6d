// The list in which verbs register themselves before main starts.
#include "cli/verb.h"

#include <algorithm>

namespace fk {
namespace {

std::vector<Verb*>& registered() {
  static std::vector<Verb*> verbs;
  return verbs;
}

}  // namespace

Verb::Verb(std::string name, std::string summary, std::vector<std::string> examples)
    : name_(std::move(name)), summary_(std::move(summary)), examples_(std::move(examples)) {
  registered().push_back(this);
}

FlagSet& Verb::flags() {
  if (!flags_) {
    flags_ = std::make_unique<FlagSet>();
    add_flags(*flags_);
  }
  return *flags_;
}

std::vector<Verb*> all_verbs() {
  std::vector<Verb*> verbs = registered();
  std::sort(verbs.begin(), verbs.end(), [](const Verb* a, const Verb* b) { return a->name() < b->name(); });
  return verbs;
}

}  // namespace fk
