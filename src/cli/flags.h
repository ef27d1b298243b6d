// Flags: what a verb takes on the command line, as a description that is parsed, printed as help and enumerated.
//
//   flags.option("--level", level_, "Only operators of this level").range(1, 4);
//   flags.flag("--map", map_, "Which operators each model is made of");
//
// Only cli/command_line.cpp uses the parsing library.
#pragma once

#include <concepts>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace fk {

using FlagReader = std::function<void(const std::string& text)>;
// The target of a flag's value. A vector takes several values, a bool none; a reader function is called with each text.
using FlagTarget = std::variant<bool*, int*, int64_t*, double*, std::string*, std::vector<int64_t>*,
                                std::vector<std::string>*, FlagReader>;

template <class T>
concept FlagValue = std::same_as<T, int> || std::same_as<T, int64_t> || std::same_as<T, double> ||
    std::same_as<T, std::string> || std::same_as<T, std::vector<int64_t>> || std::same_as<T, std::vector<std::string>>;

// The heading of the flags that every verb takes.
inline constexpr const char* kCommonGroup = "Options of every verb";

enum class FlagKind { kSwitch, kWholeNumber, kNumber, kText, kFile, kFolder };

class Flag {
 public:
  Flag(std::string names, FlagTarget target, std::string help)
      : names_(std::move(names)), target_(std::move(target)), help_(std::move(help)) {}

  // The name of the value in the help; FILE and DIR also select the shell completion. Without it the help shows the
  // value's type and its range.
  Flag& type_name(std::string name);
  Flag& show_default();  // the target's value now
  Flag& required(bool needed = true);
  Flag& range(int64_t least, int64_t most);
  Flag& one_of(std::vector<std::string> choices);
  Flag& existing_file();
  // `complaint` returns the error in a text, or an empty string.
  Flag& check(std::function<std::string(const std::string& text)> complaint);
  Flag& excludes(Flag& other);
  Flag& exactly(int values);
  Flag& group(std::string heading);  // its heading in the help
  Flag& hidden();                    // not in the help, nor in anything else that lists flags

  // Whether the command line, or else the config file, sets it, and its texts ("true" or "false" for a switch). False
  // before parsing.
  bool given() const { return !texts_.empty(); }
  const std::vector<std::string>& texts() const { return texts_; }
  bool from_config() const { return from_config_; }
  void set_given(std::vector<std::string> texts, bool from_config = false) {
    texts_ = std::move(texts);
    from_config_ = from_config;
  }

  // "--cold,!--warm": names separated by commas; one after ! is a switch that turns the others off. A name without
  // dashes is a positional argument.
  const std::string& names() const { return names_; }
  std::vector<std::string> name_list() const;  // "--cold" and "--warm"
  bool is_word() const { return names_[0] != '-' && names_[0] != '!'; }
  const FlagTarget& target() const { return target_; }
  const std::string& help() const { return help_; }
  FlagKind kind() const;
  bool takes_several() const;
  std::string value() const;  // the target's value now, as text; empty for readers
  const std::string& type_name() const { return type_name_; }
  bool shows_default() const { return shows_default_; }
  bool is_required() const { return required_; }
  bool is_hidden() const { return hidden_; }
  bool is_existing_file() const { return existing_file_; }
  std::optional<std::pair<int64_t, int64_t>> range() const { return range_; }
  const std::vector<std::string>& choices() const { return choices_; }
  const std::function<std::string(const std::string&)>& complaint() const { return complaint_; }
  Flag* excluded() const { return excluded_; }
  int count() const { return count_; }  // 0: given by the type of the target
  const std::string& group() const { return group_; }

 private:
  std::string names_;
  FlagTarget target_;
  std::string help_, type_name_, group_;
  std::optional<std::pair<int64_t, int64_t>> range_;
  std::vector<std::string> choices_, texts_;
  std::function<std::string(const std::string&)> complaint_;
  Flag* excluded_ = nullptr;
  int count_ = 0;
  bool shows_default_ = false, required_ = false, hidden_ = false, existing_file_ = false, from_config_ = false;
};

// The flags of the program, of a verb, or of an action of a verb. Targets must outlive it; references to flags and
// actions stay valid while others are added.
class FlagSet {
 public:
  FlagSet() = default;
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  // A switch without a value.
  Flag& flag(std::string names, bool& target, std::string help) {
    return add(std::move(names), &target, std::move(help));
  }

  template <FlagValue T>
  Flag& option(std::string names, T& target, std::string help) {
    return add(std::move(names), &target, std::move(help));
  }
  Flag& option(std::string names, FlagReader reader, std::string help) {
    return add(std::move(names), std::move(reader), std::move(help));
  }

  // Positional arguments.
  template <FlagValue T>
  Flag& words(std::string name, T& target, std::string help) {
    return add(std::move(name), &target, std::move(help));
  }

  // A second word after the verb, like `show` in `history show`, with its own flags. The verb's flags may follow it
  // too. `chosen` is set to its name if it is given.
  FlagSet& action(std::string name, std::string summary, std::string& chosen);

  const Flag* find(const std::string& name) const;  // "--device", or null

  // In the order they were added.
  std::deque<Flag>& flags() { return flags_; }
  const std::deque<Flag>& flags() const { return flags_; }
  std::deque<FlagSet>& actions() { return actions_; }
  const std::deque<FlagSet>& actions() const { return actions_; }

  // Of an action; empty for others.
  const std::string& name() const { return name_; }
  const std::string& summary() const { return summary_; }
  std::string* chosen() const { return chosen_; }

 private:
  Flag& add(std::string names, FlagTarget target, std::string help) {
    return flags_.emplace_back(std::move(names), std::move(target), std::move(help));
  }

  std::deque<Flag> flags_;
  std::deque<FlagSet> actions_;
  std::string name_, summary_;
  std::string* chosen_ = nullptr;
};

}  // namespace fk
