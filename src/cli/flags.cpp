#include "cli/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <type_traits>

namespace fk {

Flag& Flag::type_name(std::string name) {
  type_name_ = std::move(name);
  return *this;
}

Flag& Flag::show_default() {
  shows_default_ = true;
  return *this;
}

Flag& Flag::required(bool needed) {
  required_ = needed;
  return *this;
}

Flag& Flag::range(int64_t least, int64_t most) {
  range_ = {least, most};
  return *this;
}

Flag& Flag::one_of(std::vector<std::string> choices) {
  choices_ = std::move(choices);
  return *this;
}

Flag& Flag::existing_file() {
  existing_file_ = true;
  return *this;
}

Flag& Flag::check(std::function<std::string(const std::string&)> complaint) {
  complaint_ = std::move(complaint);
  return *this;
}

Flag& Flag::excludes(Flag& other) {
  excluded_ = &other;
  return *this;
}

Flag& Flag::exactly(int values) {
  count_ = values;
  return *this;
}

Flag& Flag::group(std::string heading) {
  group_ = std::move(heading);
  return *this;
}

Flag& Flag::hidden() {
  hidden_ = true;
  return *this;
}

std::vector<std::string> Flag::name_list() const {
  std::vector<std::string> list;
  for (size_t at = 0; at <= names_.size();) {
    size_t end = std::min(names_.find(',', at), names_.size());
    size_t from = names_[at] == '!' ? at + 1 : at;
    list.push_back(names_.substr(from, end - from));
    at = end + 1;
  }
  return list;
}

FlagKind Flag::kind() const {
  if (std::holds_alternative<bool*>(target_)) return FlagKind::kSwitch;
  if (std::holds_alternative<double*>(target_)) return FlagKind::kNumber;
  if (std::holds_alternative<int*>(target_) || std::holds_alternative<int64_t*>(target_) ||
      std::holds_alternative<std::vector<int64_t>*>(target_))
    return FlagKind::kWholeNumber;
  if (existing_file_ || type_name_.starts_with("FILE")) return FlagKind::kFile;
  return type_name_.starts_with("DIR") ? FlagKind::kFolder : FlagKind::kText;
}

bool Flag::takes_several() const {
  return count_ != 1 && (std::holds_alternative<std::vector<int64_t>*>(target_) ||
                         std::holds_alternative<std::vector<std::string>*>(target_));
}

std::string Flag::value() const {
  return std::visit(
      [](const auto& target) -> std::string {
        using T = std::decay_t<decltype(target)>;
        if constexpr (std::is_same_v<T, FlagReader>)
          return "";
        else if constexpr (std::is_same_v<T, std::vector<int64_t>*> || std::is_same_v<T, std::vector<std::string>*>)
          return fmt::format("{}", fmt::join(*target, " "));
        else
          return fmt::format("{}", *target);
      },
      target_);
}

FlagSet& FlagSet::action(std::string name, std::string summary, std::string& chosen) {
  FlagSet& added = actions_.emplace_back();
  added.name_ = std::move(name);
  added.summary_ = std::move(summary);
  added.chosen_ = &chosen;
  return added;
}

const Flag* FlagSet::find(const std::string& name) const {
  for (const Flag& flag : flags_) {
    std::vector<std::string> names = flag.name_list();
    if (std::find(names.begin(), names.end(), name) != names.end()) return &flag;
  }
  return nullptr;
}

}  // namespace fk
