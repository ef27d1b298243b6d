#include "cli/search_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cli/output.h"
#include "cli/table.h"
#include "compiler/codegen/cuda_product.h"
#include "compiler/plan/plan_executor.h"
#include "compiler/plan/step_trial.h"

namespace fk {
namespace {

std::string decision(const KernelChoice& k) {
  if (!k.tried) return "not measured";
  if (!k.trial.failure.empty()) return fmt::format("not used: {}", trial_end_text(k.trial.end));
  return k.chosen ? "generated" : "calls";
}

// Of a kernel with products, with the time of each cut.
std::string products_reason(const KernelChoice& k) {
  std::string text;
  for (const RegionTiming& t : k.trial.timings)
    if (t.rows == 1)
      text =
          fmt::format("It is {}: with one row {:.0f} ns, and the calls with the kernels for parts of them {:.0f} ns.",
                      k.chosen ? "used" : "not used", t.kernel_ns, t.calls_ns - k.saved_inside_ns);
  for (const CutTime& c : k.trial.cuts)
    text += fmt::format("\n  {} rows, {}: {:.0f} ns{}", c.rows, product_cuts()[static_cast<size_t>(c.cut)].text(), c.ns,
                        c.cut == (c.rows == 1 ? k.trial.one : k.trial.several) ? ", the fastest" : "");
  return text;
}

// Why a kernel is used or not, as a sentence.
std::string reason(const KernelChoice& k) {
  if (!k.tried) return "It was not measured.";
  if (!k.trial.failure.empty()) return fmt::format("It is not used: {}.", k.trial.failure);
  if (k.trial.one != CutKernel::kNoCut) return products_reason(k);
  if (k.chosen) return "It is used: faster, and slower with no number of rows.";
  for (const RegionTiming& t : k.trial.timings)
    if (t.verdict == "SLOWER" || t.speedup < 1)
      return fmt::format("It is not used: with {} rows it is {:.2f}x as fast as the calls.", t.rows, t.speedup);
  return "It is not used: no number of rows shows a gain beyond the noise.";
}

Table kernel_table(const SearchReport& found) {
  Table table({{"phase", "PHASE"},
               {"calls", "CALLS THAT BECOME ONE KERNEL"},
               {"places", "PLACES"},
               {"rows", "ROWS"},
               {"calls_ns", "CALLS NS"},
               {"kernel_ns", "KERNEL NS"},
               {"speedup", "SPEED-UP"},
               {"speedup_low", "LOW"},
               {"speedup_high", "HIGH"},
               {"verdict", "VERDICT"},
               {"chosen", "CHOSEN"}});
  for (const PhasePlan& plan : found.plans)
    for (const KernelChoice& k : plan.kernels) {
      std::vector<Cell> begin = {std::string(phase_name(plan.phase)), k.calls, k.places};
      if (k.trial.timings.empty()) {
        std::vector<Cell> cells = begin;
        for (int i = 0; i < 7; ++i) cells.emplace_back();
        cells.emplace_back(decision(k));
        table.add_row(std::move(cells));
      }
      for (const RegionTiming& t : k.trial.timings) {
        std::vector<Cell> cells = begin;
        for (Cell cell : {Cell(t.rows), Cell(t.calls_ns, 0), Cell(t.kernel_ns, 0), Cell(t.speedup, 2), Cell(t.low, 2),
                          Cell(t.high, 2), Cell(t.verdict), Cell(decision(k))})
          cells.push_back(std::move(cell));
        table.add_row(std::move(cells));
      }
    }
  return table;
}

void print_explanation(const SearchReport& found) {
  std::vector<std::string> shown;
  for (const PhasePlan& plan : found.plans)
    for (const KernelChoice& k : plan.kernels) {
      if (std::find(shown.begin(), shown.end(), k.key) != shown.end()) continue;
      shown.push_back(k.key);
      std::string expression = "  " + k.expression;
      for (size_t at = 0; (at = expression.find('\n', at)) != expression.npos && at + 1 < expression.size(); at += 3)
        expression.insert(at + 1, "  ");
      print_out(fmt::format("\n{}, {} in {}; first at {}\n{}{}{}\n", k.calls,
                            k.places == 1 ? "once" : fmt::format("{} times", k.places), phase_name(plan.phase),
                            fmt::join(k.paths, ", "), expression, expression.ends_with('\n') ? "" : "\n", reason(k)));
    }
  for (const std::string& op : found.candidates) {
    bool inside = false;
    for (const PhasePlan& plan : found.plans)
      for (const KernelChoice& k : plan.kernels)
        if ((" + " + k.calls + " + ").find(" + " + op + " + ") != std::string::npos) {
          inside = true;
          for (const RegionTiming& t : k.trial.timings)
            print_out(fmt::format(
                "\ncandidate of {}: in {} with {} rows the generated kernel is {:.2f}x as fast as the calls with it "
                "({})",
                op, k.calls, t.rows, t.speedup, k.chosen ? "the kernel is used" : "the candidate is used"));
        }
    print_out(inside ? "\n" : fmt::format("\ncandidate of {}: no generated kernel competes with it; it is used\n", op));
  }
  Table rules({{"rule", "RULE"}, {"matches", "MATCHES"}, {"unions", "UNIONS"}, {"ms", "MS"}});
  const std::vector<RuleStatistics>& statistics = found.plans.front().rules;
  for (const RuleStatistics& r : statistics)
    rules.add_row({std::string(r.rule), r.matches, r.unions, Cell(r.time_ns * 1e-6, 1)});
  print_out(fmt::format("\nrules of the e-graph, {}\n", phase_name(found.plans.front().phase)) + rules.to_text());
}

}  // namespace

Json plan_json(const PhasePlan& plan) {
  Json json = {{"phase", phase_name(plan.phase)},   {"calls", plan.calls},     {"calls_planned", plan.calls_planned},
               {"fingerprint", plan.fingerprint()}, {"find_s", plan.find_s},   {"compile_s", plan.compile_s},
               {"trial_s", plan.trial_s},           {"kernels", Json::array()}};
  for (const KernelChoice& k : plan.kernels) {
    Json kernel = trial_to_json(k.trial);
    kernel.update({{"key", k.key},
                   {"calls", k.calls},
                   {"expression", k.expression},
                   {"places", k.places},
                   {"paths", k.paths},
                   {"tried", k.tried},
                   {"known", k.known},
                   {"chosen", k.chosen},
                   {"reason", reason(k)}});
    json["kernels"].push_back(std::move(kernel));
  }
  for (const RuleStatistics& r : plan.rules)
    json["rules"].push_back(
        {{"rule", r.rule}, {"matches", r.matches}, {"unions", r.unions}, {"time_ms", r.time_ns * 1e-6}});
  return json;
}

Json kernels_json(const PhasePlan& plan) {
  Json kernels = Json::array();
  for (const KernelChoice& k : plan.kernels) {
    Json kernel = trial_to_json(k.trial);
    kernel.update({{"calls", k.calls}, {"places", k.places}, {"chosen", k.chosen}});
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

Json planned_steps(const GraphBody& flat, const PhasePlan& plan) {
  std::map<size_t, const Region*> last, inside;  // by node
  for (const PlannedRegion& r : plan.regions) {
    if (r.instead_of >= 0) continue;
    for (size_t n : r.region.nodes) inside[n] = &r.region;
    last[r.region.nodes.back()] = &r.region;
  }
  Json steps = Json::array();
  for (size_t n = 0; n < flat.nodes.size(); ++n) {
    const GraphNode& node = flat.nodes[n];
    if (auto region = last.find(n); region != last.end()) {
      const std::string name = region_name(flat, *region->second);
      std::string path;
      for (size_t inner : region->second->nodes)
        if (path.empty()) path = flat.nodes[inner].path;
      Json step = {{"kind", "region"}, {"name", name}, {"path", path}, {"implementation", ""}, {"us", nullptr}};
      for (const KernelChoice& k : plan.kernels)
        if (k.chosen && k.calls == name && !k.trial.timings.empty()) step["us"] = k.trial.timings[0].kernel_ns * 1e-3;
      steps.push_back(std::move(step));
    } else if (node.is_call() && !inside.contains(n)) {
      steps.push_back(
          {{"kind", "call"}, {"name", node.op}, {"path", node.path}, {"implementation", ""}, {"us", nullptr}});
    }
  }
  return steps;
}

namespace {

Json search_json(const SearchReport& found) {
  Json json = {{"model", found.model},     {"candidates", found.candidates}, {"whole_model", found.whole},
               {"trace_s", found.trace_s}, {"total_s", found.total_s},       {"plans", Json::array()}};
  for (const PhasePlan& plan : found.plans) json["plans"].push_back(plan_json(plan));
  for (const auto& [phase, result] : found.steps) {
    Json one = trial_to_json(result);
    one["left_to_tree"] = keeps_tree(result);
    json["whole_steps"][std::string(phase_name(phase))] = std::move(one);
  }
  return json;
}

}  // namespace

void record_search(Recorder& recorder, const SearchReport& found) {
  Json json = search_json(found);
  double calls = 0, planned = 0;
  std::string text;
  Json plan = {{"plan_ms", found.total_s * 1e3}, {"steps_ms", found.steps_s * 1e3}, {"passes", found.passes}};
  if (json.contains("whole_steps")) plan["whole_steps"] = json["whole_steps"];
  for (const PhasePlan& p : found.plans) {
    const std::string phase(phase_name(p.phase));
    calls += static_cast<double>(p.calls);
    planned += static_cast<double>(p.calls_planned);
    text +=
        fmt::format("{}{}: {} calls of a pass become {}", text.empty() ? "" : "; ", phase, p.calls, p.calls_planned);
    plan["kernels"][phase] = kernels_json(p);
    plan["timeline"].push_back(
        {{"name", phase},
         {"total_ms", (p.find_s + p.compile_s + p.trial_s) * 1e3},
         {"phases", {{"find_ms", p.find_s * 1e3}, {"compile_ms", p.compile_s * 1e3}, {"trial_ms", p.trial_s * 1e3}}}});
  }
  plan["text"] = text;
  json["plan"] = std::move(plan);
  recorder.add(metrics_event({{"search_seconds", found.total_s, 0, now_us()},
                              {"calls", calls, 0, now_us()},
                              {"calls_planned", planned, 0, now_us()}}));
  recorder.artifact("results/search.json", dump_json(json) + "\n");
}

void print_search(const SearchReport& found, bool explain, const CommonOptions& common) {
  if (common.json) return print_out(dump_json(search_json(found)) + "\n");
  Table table = kernel_table(found);
  if (common.csv) return table.print(common);
  if (table.rows() > 0) print_out(table.to_text());
  if (common.quiet) return;
  if (explain) print_explanation(found);
  double find = 0, compile = 0, trial = 0;
  print_out("\n");
  for (const PhasePlan& plan : found.plans) {
    print_out(fmt::format("{}: {} calls of a pass become {} (plan {})\n", phase_name(plan.phase), plan.calls,
                          plan.calls_planned, plan.fingerprint().substr(0, 8)));
    find += plan.find_s, compile += plan.compile_s, trial += plan.trial_s;
  }
  for (const auto& [phase, result] : found.steps) {
    if (keeps_tree(result))
      print_out(fmt::format("{}: the tree is kept: {}\n", phase_name(phase), step_text(result)));
    else if (explain)
      print_out(fmt::format("{}: the plan is used: {}\n", phase_name(phase), step_text(result)));
  }
  if (explain && found.steps.empty())
    print_out(
        "Whole steps were not timed; --load-format dummy, or auto with a checkpoint, times plans against the tree.\n");
  if (!found.whole.empty())
    print_out(fmt::format("batches that {} takes are run by it as without a plan\n", fmt::join(found.whole, " or ")));
  print_out(
      fmt::format("{:.1f} s: graphs {:.1f}, expressions and loops {:.1f}, compiler {:.1f}, checks and times {:.1f}, "
                  "whole steps {:.1f}\n",
                  found.total_s, found.trace_s, find, compile, trial, found.steps_s));
}

}  // namespace fk
