#include "cli/kernels_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/table.h"
#include "cli/text_width.h"
#include "core/printable.h"

namespace fk {
namespace {

// Together with the first column they need more than this, since most names are long.
constexpr size_t kWide = 100;

Tone tone_of(std::string_view word) {
  if (word == "PASSED" || word == "FASTER") return Tone::kGood;
  if (word == "SAME" || word == "vs ORACLE") return Tone::kEqual;
  return word == "NOT_RUN" ? Tone::kPlain : Tone::kBad;
}

std::string time_text(double ns) {
  if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6) return fmt::format("{:.2f} us", ns * 1e-3);
  return fmt::format("{:.3f} ms", ns * 1e-6);
}

// Widths are those of the longest common texts; a longer text shifts the rest of its line. Verdicts other than PASSED
// are longer, but the cells after them are empty.
std::vector<TableLayout::Column> columns_of(const std::vector<KernelTarget>& targets, bool timed, bool narrow) {
  size_t names = 0;
  for (const KernelTarget& t : targets)
    for (const Scenario& s : t.scenarios) names = std::max(names, text_width(printable(s.name)));
  std::vector<TableLayout::Column> columns = {{.title = "SCENARIO", .width = names}, {.title = "VERDICT"}};
  auto number = [&](const char* title, size_t width, int expendable) {
    columns.push_back({.title = title, .width = width, .right = true, .expendable = expendable});
  };
  number(narrow ? "ERR" : "ERR_RATIO", 4, 5);
  if (!timed) {
    number("CALLS", 0, 0);
    number("ELEMENTS", 0, 1);
    return columns;
  }
  number("BASELINE", 9, 3);
  number("CANDIDATE", 9, 2);
  number("SPEEDUP", 7, 0);
  columns.push_back({.title = narrow ? "99 %" : "99 % INTERVAL", .width = narrow ? 12U : 14U, .expendable = 1});
  columns.push_back({.title = "SPEED", .width = std::string_view("UNRESOLVED").size()});
  number(narrow ? "FLOOR" : "% OF FLOOR", 5, 4);
  return columns;
}

}  // namespace

const Json* timing_of(const Json& row) {
  auto t = row.find("timing");
  return t != row.end() && t->contains("speedup") && row.value("verdict", "") == "PASSED" ? &*t : nullptr;
}

std::string speed_word(const Json& row) {
  const Json* t = timing_of(row);
  if (t == nullptr) return "";
  if (!t->at("invalid").get<std::string>().empty()) return "INVALID";
  return row.value("baseline_is_oracle", false) ? "vs ORACLE" : t->at("speed_verdict").get<std::string>();
}

KernelsTable::KernelsTable(const std::vector<KernelTarget>& targets, bool timed, const TextStyle& style)
    : timed_(timed),
      narrow_(timed && style.columns > 0 && style.columns < kWide),
      layout_(TableLayout::stacking(columns_of(targets, timed, narrow_), style)) {}

std::string KernelsTable::row(const KernelRow& r) const {
  auto verdict = r.json.value("verdict", "");
  std::vector<TableText> cells = {{r.json.value("scenario", "")}, {verdict, tone_of(verdict)}};
  auto put = [&](std::string text) { cells.push_back({std::move(text)}); };
  if (r.passed()) {
    const Json& judgement = r.json["judgement"];
    put(fmt::format("{:.2f}", judgement.value("worst_ratio", 0.0)));
    if (!timed_) {
      put(fmt::format("{}", judgement.value("calls", 0)));
      put(fmt::format("{}", judgement.value("elements", int64_t{0})));
    }
  }
  if (const Json* t = timed_ ? timing_of(r.json) : nullptr) {
    put(time_text(t->at("baseline").at("median_ns").get<double>()));
    put(time_text(t->at("candidate").at("median_ns").get<double>()));
    put(fmt::format("{:.3f}x", t->at("speedup").get<double>()));
    put(fmt::format("{:.3f}{}{:.3f}", t->at("speedup_low").get<double>(), narrow_ ? ".." : " .. ",
                    t->at("speedup_high").get<double>()));
    std::string speed = speed_word(r.json);
    cells.push_back({speed, tone_of(speed)});
    put(fmt::format("{:.0f} %", 100 * r.json["of_floor"].get<double>()));
  }
  cells.resize(timed_ ? 9 : 5);
  return layout_.row(cells);
}

std::string KernelsTable::not_run(const std::string& scenario) const {
  std::vector<TableText> cells = {{scenario}, {"NOT_RUN"}};
  cells.resize(timed_ ? 9 : 5);
  return layout_.row(cells);
}

std::string KernelsTable::csv_head() {
  return csv_record({"operator", "scenario", "verdict", "err_ratio", "baseline_ns", "candidate_ns", "speedup",
                     "speedup_low", "speedup_high", "speed_verdict", "of_floor"});
}

std::string KernelsTable::csv_row(const KernelRow& r) {
  std::vector<Json> fields = {r.json["operator"], r.json["scenario"], r.json["verdict"], nullptr};
  if (r.passed()) fields.back() = r.json["judgement"].value("worst_ratio", Json(0.0));
  if (const Json* t = timing_of(r.json))
    fields.insert(fields.end(),
                  {t->at("baseline").at("median_ns"), t->at("candidate").at("median_ns"), t->at("speedup"),
                   t->at("speedup_low"), t->at("speedup_high"), Json(speed_word(r.json)), r.json["of_floor"]});
  fields.resize(11);
  return csv_record(fields);
}

std::string KernelsTable::csv_not_run(const std::string& op, const std::string& scenario) {
  std::vector<Json> fields = {op, scenario, "NOT_RUN"};
  fields.resize(11);
  return csv_record(fields);
}

}  // namespace fk
