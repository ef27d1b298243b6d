#include "cli/kernels_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "cli/output.h"
#include "cli/table.h"
#include "measure/speed_aggregate.h"

namespace fk {
namespace {

bool coloured() { return isatty(STDOUT_FILENO) != 0 && getenv("NO_COLOR") == nullptr; }

std::string in_colour(const std::string& text, std::string_view verdict) {
  if (!coloured()) return text;
  const char* code = verdict == "PASSED" || verdict == "FASTER" ? "32" : verdict == "SAME" ? "36" : "31";
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

std::string time_text(double ns) {
  if (ns < 1e3) return fmt::format("{:.0f} ns", ns);
  if (ns < 1e6) return fmt::format("{:.2f} us", ns * 1e-3);
  return fmt::format("{:.3f} ms", ns * 1e-6);
}

const Json* timing(const Json& row) {
  auto t = row.find("timing");
  return t != row.end() && t->contains("speedup") && row.value("verdict", "") == "PASSED" ? &*t : nullptr;
}

std::vector<ScenarioSpeed> speeds(const std::vector<KernelRow>& rows, const std::string& op) {
  std::vector<ScenarioSpeed> list;
  for (const KernelRow& r : rows) {
    if (!op.empty() && r.json.value("operator", "") != op) continue;
    if (r.json.value("verdict", "") == "INVALID_TASK") continue;  // says nothing about the candidate
    ScenarioSpeed s;
    s.name = r.json.value("scenario", "");
    s.weight = std::max(1.0, r.json.value("count", 1.0));
    if (!r.passed()) {
      s.failed = true;
    } else if (const Json* t = timing(r.json); t != nullptr && t->at("invalid").get<std::string>().empty()) {
      s.log_ratio = std::log(t->at("speedup").get<double>());
      s.log_interval = {std::log(t->at("speedup_low").get<double>()), std::log(t->at("speedup_high").get<double>())};
    } else {
      s.unranked = true;
    }
    list.push_back(std::move(s));
  }
  return list;
}

std::vector<std::string> operators_of(const std::vector<KernelRow>& rows) {
  std::vector<std::string> names;
  for (const KernelRow& r : rows)
    if (auto op = r.json.value("operator", ""); names.empty() || names.back() != op) names.push_back(op);
  return names;
}

bool counts_differ(const std::vector<KernelRow>& rows, const std::string& op) {
  std::vector<ScenarioSpeed> list = speeds(rows, op);
  return std::any_of(list.begin(), list.end(), [&](const auto& s) { return s.weight != list.front().weight; });
}

std::array<std::string, 3> failure_text(const KernelRow& r) {
  return {r.json.value("operator", ""), r.json.value("verdict", ""), r.json.value("sentence", "")};
}

// Whether `--repro` stopped after a call, so that there are no times to rank.
bool repeats_calls(const std::vector<KernelRow>& rows, const std::string& op) {
  return std::none_of(rows.begin(), rows.end(), [&](const KernelRow& r) {
    return r.json.value("operator", "") == op && r.json.contains("timing");
  });
}

// A line on the scenarios that beat the best known, and one on each of those that did not do so again.
std::string new_bests(const std::vector<KernelRow>& rows, const std::string& op) {
  size_t confirmed = 0;
  std::string others;
  for (const KernelRow& r : rows) {
    if (r.json.value("operator", "") != op || !r.json.contains("confirmation")) continue;
    const Json& c = r.json["confirmation"];
    if (c.value("confirmed", false))
      ++confirmed;
    else
      others +=
          fmt::format("not confirmed as a new best: {}: {}\n", r.json.value("scenario", ""), c.value("sentence", ""));
  }
  std::string line = confirmed == 0 ? ""
                                    : fmt::format("a new best in {} scenario{}, confirmed on fresh seeds\n", confirmed,
                                                  confirmed == 1 ? "" : "s");
  return line + others;
}

Table result_table(const std::vector<KernelRow>& rows, const std::string& op, bool with_operator) {
  std::vector<Table::Column> columns;
  if (with_operator) columns.push_back({"operator", "OPERATOR"});
  for (const auto& [key, title] :
       std::initializer_list<std::pair<const char*, const char*>>{{"scenario", "SCENARIO"},
                                                                  {"verdict", "VERDICT"},
                                                                  {"err_ratio", "ERR_RATIO"},
                                                                  {"baseline_ns", "BASELINE"},
                                                                  {"candidate_ns", "CANDIDATE"},
                                                                  {"speedup", "SPEEDUP"},
                                                                  {"interval", "99 % INTERVAL"},
                                                                  {"speed_verdict", "SPEED"},
                                                                  {"of_floor", "% OF FLOOR"}})
    columns.push_back({key, title});
  Table table(columns);
  for (const KernelRow& r : rows) {
    if (!op.empty() && r.json.value("operator", "") != op) continue;
    std::vector<Cell> cells;
    if (with_operator) cells.emplace_back(r.json.value("operator", ""));
    auto verdict = r.json.value("verdict", "");
    cells.emplace_back(r.json.value("scenario", ""));
    cells.emplace_back(Json(verdict), in_colour(verdict, verdict));
    cells.push_back(r.passed() ? Cell(r.json["judgement"].value("worst_ratio", 0.0), 2) : Cell());
    if (const Json* t = timing(r.json)) {
      auto baseline = t->at("baseline").at("median_ns").get<double>();
      auto candidate = t->at("candidate").at("median_ns").get<double>();
      auto low = t->at("speedup_low").get<double>(), high = t->at("speedup_high").get<double>();
      auto speed = t->at("speed_verdict").get<std::string>();
      if (!t->at("invalid").get<std::string>().empty()) speed = "INVALID";
      cells.emplace_back(Json(baseline), time_text(baseline));
      cells.emplace_back(Json(candidate), time_text(candidate));
      cells.emplace_back(t->at("speedup"), fmt::format("{:.3f}x", t->at("speedup").get<double>()));
      cells.emplace_back(Json(fmt::format("{:.6g}..{:.6g}", low, high)), fmt::format("{:.3f} .. {:.3f}", low, high));
      cells.emplace_back(Json(speed), in_colour(speed, speed));
      cells.emplace_back(r.json["of_floor"], fmt::format("{:.0f} %", 100 * r.json["of_floor"].get<double>()));
    } else {
      while (cells.size() < columns.size()) cells.emplace_back();
    }
    table.add_row(std::move(cells));
  }
  return table;
}

}  // namespace

std::string KernelTarget::identity() const {
  if (source_path.empty()) return "baseline";
  if (!compiled || compiled->so_path.empty()) return "not built: " + source_path;
  return std::filesystem::path(compiled->so_path).stem().string();
}

void print_scenario_list(const std::vector<KernelTarget>& targets, const CommonOptions& common) {
  Table table({{"level", "LEVEL"},
               {"operator", "OPERATOR"},
               {"class", "CLASS"},
               {"scenario", "SCENARIO"},
               {"tp", "TP"},
               {"tokens", "TOKENS"},
               {"models", "MODELS"}});
  for (const KernelTarget& t : targets)
    for (const Scenario& s : t.scenarios) {
      std::string models;
      for (const std::string& m : s.models) models += (models.empty() ? "" : ", ") + m;
      table.add_row({t.op->level, std::string(t.op->name), std::string(t.op->class_name), s.name, s.tp,
                     s.workload.num_tokens(), Cell(Json(s.models), printable(models))});
    }
  table.print(common);
}

Json aggregate_json(const std::vector<KernelRow>& rows) {
  Json all = Json::object();
  auto one = [&](const std::string& op) -> Json {
    std::vector<ScenarioSpeed> list = speeds(rows, op);
    SpeedAggregate a = aggregate_speed(list);
    return {{"scenarios", a.scenarios},
            {"passed", a.scenarios - a.failures},
            {"failed", a.failures},
            {"unranked", a.unranked},
            {"geometric_mean", a.geometric_mean},
            {"calls", a.weight},
            {"calls_passed", a.passed_weight},
            {"low", a.interval.low},
            {"high", a.interval.high},
            {"worst", a.worst},
            {"worst_scenario", a.worst_name},
            {"credit", a.credit}};
  };
  for (const std::string& op : operators_of(rows)) all[op] = one(op);
  return {{"operators", all}, {"overall", one("")}};
}

void print_rows(const std::vector<KernelRow>& rows, const Json& document, const std::string& path,
                const CommonOptions& common, bool explain) {
  if (common.json) return print_out(dump_json(document) + "\n");
  if (common.csv) return result_table(rows, "", true).print(common);
  for (const std::string& op : operators_of(rows)) {
    const Json& a = document["aggregate"]["operators"][op];
    print_out(fmt::format("{}\n", op) + result_table(rows, op, false).to_text());
    auto scenarios =
        std::count_if(rows.begin(), rows.end(), [&](const KernelRow& r) { return r.json.value("operator", "") == op; });
    std::string footer = fmt::format("{}/{} passed", a["passed"].get<size_t>(), scenarios);
    auto skipped = std::count_if(rows.begin(), rows.end(), [&](const KernelRow& r) {
      return r.without_credit() && r.json.value("operator", "") == op;
    });
    if (skipped > 0) footer += fmt::format(", {} without credit", skipped);
    if (auto unranked = a["unranked"].get<size_t>(); unranked > 0 && !repeats_calls(rows, op))
      footer += fmt::format(", {} not ranked", unranked);
    if (a["geometric_mean"].get<double>() > 0)
      footer += fmt::format(", geometric mean {}{:.3f}x ({:.3f} .. {:.3f}), worst {:.3f}x in {}",
                            counts_differ(rows, op) ? "by calls " : "", a["geometric_mean"].get<double>(),
                            a["low"].get<double>(), a["high"].get<double>(), a["worst"].get<double>(),
                            a["worst_scenario"].get<std::string>());
    print_text(footer + "\n" + new_bests(rows, op) + "\n");
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const KernelRow& r = rows[i];
    if (!r.passed()) {
      // A candidate that does not build fails every scenario with the same words.
      auto same = [&](const KernelRow& other) { return failure_text(other) == failure_text(r); };
      auto at = rows.begin() + static_cast<std::ptrdiff_t>(i);
      if (std::none_of(rows.begin(), at, same)) {
        auto more = std::count_if(at + 1, rows.end(), same);
        print_text(fmt::format("{} {}{}: {}: {}\n", r.json.value("operator", ""), r.json.value("scenario", ""),
                               more > 0 ? fmt::format(" and {} more", more) : "", r.json.value("verdict", ""),
                               r.json.value("sentence", "")));
        if (std::string again = r.json.value("repro", ""); again.find(" --repro ") != std::string::npos)
          print_text(fmt::format("  again: {}\n", again));
      }
    } else if (std::string invalid = r.json.value(Json::json_pointer("/timing/invalid"), ""); !invalid.empty()) {
      print_text(fmt::format("{} {}: {}\n", r.json.value("operator", ""), r.json.value("scenario", ""), invalid));
    }
    if (explain) print_text(r.json.value("explanation", ""));
  }
  std::string off;
  auto add_missing = [&](const Json& protections) {
    for (const Json& p : protections)
      if (!p.at("on").get<bool>())
        off += fmt::format("{}{} ({})", off.empty() ? "" : ", ", p.at("name").get<std::string>(),
                           p.at("why").get<std::string>());
  };
  for (const Json& c : document["candidates"])
    if (c.contains("build_protections") && off.empty()) add_missing(c["build_protections"]);
  bool told = false;
  for (const KernelRow& r : rows)
    if (r.json.contains("timing") && !std::exchange(told, true)) add_missing(r.json["timing"]["protections"]);
  if (!off.empty()) print_out(fmt::format("Not available on this machine, so off: {}.\n", off));
  if (!path.empty()) print_text(fmt::format("Everything measured: {}\n", path));
}

std::string failure_sentence(const std::vector<KernelRow>& rows, bool self_test) {
  size_t passed = 0, skipped = 0, differs = 0;
  for (const KernelRow& r : rows) {
    const Json* t = timing(r.json);
    if (self_test && t != nullptr && t->at("invalid").get<std::string>().empty())
      if (auto speed = t->at("speed_verdict").get<std::string>(); speed == "FASTER" || speed == "SLOWER") ++differs;
    passed += r.passed() ? 1 : 0;
    skipped += r.without_credit() ? 1 : 0;
  }
  if (passed + skipped < rows.size())
    return fmt::format("{} of {} scenarios did not pass.", rows.size() - passed - skipped, rows.size());
  if (differs > 0)
    return fmt::format(
        "In {} of {} scenarios the baseline is called faster or slower than itself: times of this machine cannot be "
        "trusted now; stop what else runs on it, or give more --num-runs.",
        differs, rows.size());
  return passed == 0 ? "No scenario was measured." : "";
}

}  // namespace fk
