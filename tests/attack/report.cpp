#include "tests/attack/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

namespace fk::attack {
namespace {

using Row = std::array<std::string, 6>;
const Row kHead = {"FRAUD", "OPERATOR", "TRIED", "LARGEST THAT SURVIVED", "CAUGHT FROM", "AS"};

std::string gain(const Attempt& a) {
  return fmt::format("{:.3f}x ({:.3f} .. {:.3f})", a.speedup, a.interval.low, a.interval.high);
}

std::string survivor_text(const Finding& f) {
  if (const Attempt* a = f.largest_survivor())
    return fmt::format("{}: {}{}", strength_text(*f.kind, a->strength), gain(*a), worth_caring(f) ? "" : ", harmless");
  const Attempt* harmless = nullptr;
  for (const Attempt& a : f.attempts)
    if (a.outcome == Outcome::kHarmless && (harmless == nullptr || a.strength > harmless->strength)) harmless = &a;
  if (harmless == nullptr) return "none";
  return fmt::format("none; {} not ranked faster", strength_text(*f.kind, harmless->strength));
}

Row row_of(const Finding& f) {
  const Attempt *weakest = f.weakest_caught(), *strongest = f.strongest_caught();
  return {f.kind->name,
          f.target->name,
          fmt::format("{}", f.attempts.size()),
          survivor_text(f),
          weakest != nullptr ? strength_text(*f.kind, weakest->strength) : "never",
          strongest != nullptr ? strongest->verdict : "-"};
}

std::string summary(const std::vector<Finding>& findings) {
  std::set<std::string> kinds, surviving;
  const Attempt* worst = nullptr;
  const Finding* where = nullptr;
  size_t attempts = 0;
  for (const Finding& f : findings) {
    kinds.insert(f.kind->name);
    attempts += f.attempts.size();
    if (!worth_caring(f)) continue;
    surviving.insert(f.kind->name);
    const Attempt* a = f.largest_survivor();
    if (worst == nullptr || a->worth() > worst->worth()) worst = a, where = &f;
  }
  std::string text = fmt::format("{} frauds of {} kinds tried; {} kinds survive with a gain beyond {:.1f} %", attempts,
                                 kinds.size(), surviving.size(), 100 * kResolution);
  if (worst != nullptr)
    text += fmt::format(", the largest by {} on {}: {}", where->kind->name, where->target->name, gain(*worst));
  return text + ".\n";
}

}  // namespace

std::string to_text(const std::vector<Finding>& findings) {
  std::vector<Row> rows = {kHead};
  for (const Finding& f : findings) rows.push_back(row_of(f));
  std::array<size_t, 6> widths{};
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  text += "\n";
  // The verdict on the strongest of each kind, so that a reader sees whether it was caught for the right reason.
  for (const Finding& f : findings)
    if (const Attempt* a = f.strongest_caught())
      text += fmt::format("{} on {}, {}: {} {}\n", f.kind->name, f.target->name, strength_text(*f.kind, a->strength),
                          a->verdict, a->sentence);
  return text + "\n" + summary(findings);
}

std::string to_markdown(const std::vector<Finding>& findings) {
  std::string text =
      "| fraud | what it does | operator | tried | largest that survived | caught from | as |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n";
  for (const Finding& f : findings) {
    Row r = row_of(f);
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", r[0], f.kind->what, r[1], r[2], r[3], r[4], r[5]);
  }
  return text + "\n" + summary(findings);
}

Json to_json(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& f : findings) {
    Json attempts = Json::array();
    for (const Attempt& a : f.attempts) {
      Json one = {{"strength", a.strength}, {"outcome", outcome_name(a.outcome)}, {"verdict", a.verdict},
                  {"sentence", a.sentence}, {"could_hide", a.could_hide},         {"seconds", a.seconds},
                  {"worth", a.worth()}};
      if (a.interval.high > 0) {
        one["speedup"] = a.speedup;
        one["interval"] = {a.interval.low, a.interval.high};
      }
      attempts.push_back(one);
    }
    list.push_back({{"fraud", f.kind->name},
                    {"what", f.kind->what},
                    {"unit", f.kind->unit},
                    {"operator", f.target->name},
                    {"survives", worth_caring(f)},
                    {"attempts", attempts}});
  }
  return {{"resolution", kResolution}, {"findings", list}};
}

}  // namespace fk::attack
