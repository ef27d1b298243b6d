#include "cli/flag_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <type_traits>

#include "cli/options.h"

namespace fk {
namespace {

std::optional<bool> parse_switch(const std::string& text) {
  for (const char* yes : {"true", "yes", "on", "1"})
    if (text == yes) return true;
  for (const char* no : {"false", "no", "off", "0"})
    if (text == no) return false;
  return std::nullopt;
}

std::optional<double> parse_number(const std::string& text) {
  char* end = nullptr;
  double number = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size()) return std::nullopt;
  return number;
}

std::string complaint_about_text(const Flag& flag, const std::string& text) {
  if (flag.kind() == FlagKind::kSwitch) return parse_switch(text) ? "" : text + " is neither true nor false";
  if (flag.kind() == FlagKind::kNumber && !parse_number(text)) return text + " is no number";
  if (flag.kind() == FlagKind::kWholeNumber) {
    std::optional<int64_t> number = parse_whole<int64_t>(text);
    if (!number || (std::holds_alternative<int*>(flag.target()) && static_cast<int>(*number) != *number))
      return text + " is no whole number";
    if (flag.range() && (*number < flag.range()->first || *number > flag.range()->second))
      return fmt::format("{} is not from {} to {}", text, flag.range()->first, flag.range()->second);
  } else if (flag.range()) {
    std::optional<double> number = parse_number(text);
    if (!number ||
        !(*number >= static_cast<double>(flag.range()->first) && *number <= static_cast<double>(flag.range()->second)))
      return fmt::format("{} is not from {} to {}", text, flag.range()->first, flag.range()->second);
  }
  const std::vector<std::string>& choices = flag.choices();
  if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end())
    return fmt::format("{} is none of {}", text, fmt::join(choices, ", "));
  std::error_code error;
  if (flag.is_existing_file() && !std::filesystem::is_regular_file(text, error))
    return fmt::format("there is no file {}", text);
  return flag.complaint() ? flag.complaint()(text) : "";
}

}  // namespace

std::string complaint_about(const Flag& flag, const std::vector<std::string>& values) {
  if (values.size() != 1 && !flag.takes_several()) return "takes one value";
  if (flag.count() > 1 && values.size() != static_cast<size_t>(flag.count()))
    return fmt::format("takes {} values", flag.count());
  for (const std::string& text : values)
    if (std::string what = complaint_about_text(flag, text); !what.empty()) return what;
  return "";
}

void set_flag(Flag& flag, const std::string& name, const std::vector<std::string>& values) {
  bool negative = ("," + flag.names() + ",").find(",!" + name + ",") != std::string::npos;
  std::visit(
      [&](const auto& target) {
        using T = std::decay_t<decltype(target)>;
        if constexpr (std::is_same_v<T, bool*>) {
          *target = parse_switch(values[0]).value() != negative;
        } else if constexpr (std::is_same_v<T, int*>) {
          *target = static_cast<int>(parse_whole<int64_t>(values[0]).value());
        } else if constexpr (std::is_same_v<T, int64_t*>) {
          *target = parse_whole<int64_t>(values[0]).value();
        } else if constexpr (std::is_same_v<T, double*>) {
          *target = parse_number(values[0]).value();
        } else if constexpr (std::is_same_v<T, std::string*>) {
          *target = values[0];
        } else if constexpr (std::is_same_v<T, std::vector<std::string>*>) {
          *target = values;
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>*>) {
          target->clear();
          for (const std::string& text : values) target->push_back(parse_whole<int64_t>(text).value());
        } else {
          for (const std::string& text : values) target(text);
        }
      },
      flag.target());
  flag.set_given(values, true);
}

}  // namespace fk
