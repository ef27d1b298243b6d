#include "cli/kernels_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "cli/kernels_table.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "core/error.h"
#include "core/printable.h"
#include "measure/speed_aggregate.h"

namespace fk {
namespace {

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
    } else if (const Json* t = timing_of(r.json); t != nullptr && t->at("invalid").get<std::string>().empty()) {
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

// A line for the scenarios that beat the best known result, and one for each that was not confirmed.
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

}  // namespace

std::string KernelTarget::identity() const {
  if (source_path.empty()) return "baseline";
  if (!compiled || compiled->so_path.empty()) return "not built: " + source_path;
  return std::filesystem::path(compiled->so_path).stem().string();
}

std::string KernelTarget::version() const {
  return compiled && compiled->failure ? identity() + compiled->failure->sentence + source : identity();
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

namespace {

Json aggregate_of(const std::vector<KernelRow>& rows, const std::string& op) {
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
}

// The note on speed-ups over the oracle, if the operator has no other baseline.
std::string oracle_note(const std::vector<KernelRow>& rows, const std::string& op) {
  auto over_oracle = [&](const KernelRow& r) {
    return r.json.value("operator", "") == op && speed_word(r.json) == "vs ORACLE";
  };
  if (std::none_of(rows.begin(), rows.end(), over_oracle)) return "";
  return fmt::format(
      "vs ORACLE: the only baseline of {} here is the float64 oracle, which is written for clarity, not speed; a "
      "speed-up over it is never called FASTER.\n",
      op);
}

std::string footer(const std::vector<KernelRow>& rows, const std::string& op, size_t not_run, bool timed) {
  Json a = aggregate_of(rows, op);
  auto count = [&](auto&& fits) {
    return std::count_if(rows.begin(), rows.end(),
                         [&](const KernelRow& r) { return r.json.value("operator", "") == op && fits(r); });
  };
  std::string text = fmt::format("{}/{} passed", a["passed"].get<size_t>(),
                                 static_cast<size_t>(count([](const KernelRow&) { return true; })) + not_run);
  if (auto skipped = count([](const KernelRow& r) { return r.without_credit(); }); skipped > 0)
    text += fmt::format(", {} without credit", skipped);
  if (not_run > 0) text += fmt::format(", {} not run", not_run);
  if (!timed) return text + "; a check: nothing was timed\n";
  if (auto unranked = a["unranked"].get<size_t>(); unranked > 0 && !repeats_calls(rows, op))
    text += fmt::format(", {} not ranked", unranked);
  if (a["geometric_mean"].get<double>() > 0)
    text += fmt::format(", geometric mean {}{:.3f}x ({:.3f} .. {:.3f}), worst {:.3f}x in {}",
                        counts_differ(rows, op) ? "by calls " : "", a["geometric_mean"].get<double>(),
                        a["low"].get<double>(), a["high"].get<double>(), a["worst"].get<double>(),
                        a["worst_scenario"].get<std::string>());
  return text + "\n" + oracle_note(rows, op) + new_bests(rows, op);
}

// The failures of an operator, from row `first` on, each sentence once, and what limits each candidate.
std::string sentences(const std::vector<KernelRow>& rows, const std::string& op, size_t first, bool explain) {
  std::string text;
  for (size_t i = first; i < rows.size() && rows[i].json.value("operator", "") == op; ++i) {
    const KernelRow& r = rows[i];
    if (!r.passed()) {
      // A candidate that does not build fails every scenario with the same sentence.
      auto same = [&](const KernelRow& other) { return failure_text(other) == failure_text(r); };
      auto at = rows.begin() + static_cast<std::ptrdiff_t>(i);
      if (std::none_of(rows.begin(), at, same)) {
        auto more = std::count_if(at + 1, rows.end(), same);
        text += fmt::format("{} {}{}: {}: {}\n", r.json.value("operator", ""), r.json.value("scenario", ""),
                            more > 0 ? fmt::format(" and {} more", more) : "", r.json.value("verdict", ""),
                            r.json.value("sentence", ""));
        if (std::string again = r.json.value("repro", ""); again.find(" --repro ") != std::string::npos)
          text += fmt::format("  again: {}\n", again);
      }
    } else if (std::string invalid = r.json.value(Json::json_pointer("/timing/invalid"), ""); !invalid.empty()) {
      text += fmt::format("{} {}: {}\n", r.json.value("operator", ""), r.json.value("scenario", ""), invalid);
    }
    if (explain) text += r.json.value("explanation", "");
  }
  return text;
}

std::string missing_protections(const std::vector<KernelRow>& rows, const Json& document) {
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
  return off.empty() ? "" : fmt::format("Not available on this machine, so off: {}.\n", off);
}

}  // namespace

Json aggregate_json(const std::vector<KernelRow>& rows) {
  Json all = Json::object();
  for (const std::string& op : operators_of(rows)) all[op] = aggregate_of(rows, op);
  return {{"operators", all}, {"overall", aggregate_of(rows, "")}};
}

struct KernelsReport::State {
  const std::vector<KernelRow>& rows;
  const CommonOptions common;
  const ReportOptions options;
  KernelsTable table;
  std::string op = {};         // operator of the current rows; empty: none
  size_t first = 0;            // of its rows
  size_t left_out = 0;         // of its scenarios
  bool closed = false;         // the pipe was closed; results are still kept
  std::string unprinted = {};  // any other output error
  bool printed = false;        // something was printed, so a blank line comes next

  void print(const std::string& text) { print(text, print_out); }
  void print_csv(const std::string& text) { print(text, fk::print_csv); }
  void print(const std::string& text, void (*to_output)(std::string_view)) {
    try {
      if (!closed) to_output(text);
    } catch (const OutputClosed&) {
      closed = true;
    } catch (const Error& error) {
      closed = true;
      unprinted = error.what();
    }
  }
};

KernelsReport::KernelsReport(const std::vector<KernelTarget>& targets, const std::vector<KernelRow>& rows,
                             const CommonOptions& common, const ReportOptions& options)
    : state_(new State{rows, common, options, KernelsTable(targets, options.timed, style_of(STDOUT_FILENO))}) {
  if (common.csv) state_->print_csv(KernelsTable::csv_head());
}

KernelsReport::~KernelsReport() = default;

void KernelsReport::begin(const std::string& op, size_t first) {
  if (state_->op == op) return;
  end_operator();
  state_->op = op;
  state_->first = first;
  state_->print(fmt::format("{}{}\n{}", std::exchange(state_->printed, true) ? "\n" : "", op, state_->table.head()));
}

void KernelsReport::row_added() {
  const KernelRow& row = state_->rows.back();
  if (state_->common.csv) state_->print_csv(KernelsTable::csv_row(row));
  if (!state_->common.text()) return;
  begin(row.json.value("operator", ""), state_->rows.size() - 1);
  state_->print(state_->table.row(row));
}

void KernelsReport::not_run(const std::string& op, const std::string& scenario) {
  if (state_->common.csv) state_->print_csv(KernelsTable::csv_not_run(op, scenario));
  if (!state_->common.text()) return;
  begin(op, state_->rows.size());
  ++state_->left_out;
  state_->print(state_->table.not_run(scenario));
}

void KernelsReport::end_operator() {
  if (state_->op.empty()) return;
  std::string failed = sentences(state_->rows, state_->op, state_->first, state_->options.explain);
  state_->print(printable_lines(footer(state_->rows, state_->op, state_->left_out, state_->options.timed)));
  if (!failed.empty()) state_->print(printable_lines("\n" + failed));
  state_->op.clear();
  state_->left_out = 0;
}

void KernelsReport::finish(const Json& document, const std::string& path) {
  if (state_->common.json) state_->print(dump_json(document) + "\n");
  if (state_->common.text()) {
    end_operator();
    std::string off = missing_protections(state_->rows, document);
    if (state_->printed && !(off.empty() && path.empty())) state_->print("\n");
    state_->print(off);
    if (!path.empty()) state_->print(printable_lines(fmt::format("Everything measured: {}\n", path)));
  }
  if (!state_->unprinted.empty()) throw Error("{}", state_->unprinted);
}

std::string failure_sentence(const std::vector<KernelRow>& rows, bool self_test, bool fail_fast) {
  size_t passed = 0, skipped = 0, differs = 0;
  for (const KernelRow& r : rows) {
    const Json* t = timing_of(r.json);
    if (self_test && t != nullptr && t->at("invalid").get<std::string>().empty())
      if (auto speed = t->at("speed_verdict").get<std::string>(); speed == "FASTER" || speed == "SLOWER") ++differs;
    passed += r.passed() ? 1 : 0;
    skipped += r.without_credit() ? 1 : 0;
  }
  if (passed + skipped < rows.size() && fail_fast)
    return fmt::format("{} did not pass in {}, and --fail-fast ended the run there.",
                       rows.back().json.value("operator", ""), rows.back().json.value("scenario", ""));
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
