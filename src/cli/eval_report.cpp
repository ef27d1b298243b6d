#include "cli/eval_report.h"

#include <fmt/format.h>

#include "bench/eval/item.h"
#include "cli/output.h"
#include "cli/table.h"
#include "track/events.h"

namespace fk {
namespace {

Json known_number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Cell speedup_cell(const Json& value) {
  return value.is_null() ? Cell() : Cell(value, fmt::format("{:.3f}x", value.get<double>()));
}
Json field_of(const Json& item, const char* key) { return item.contains(key) ? item.at(key) : Json(); }

const char* state_of(const Json& item) {
  return item.at("status") != "ok" ? "FAILED" : item.at("valid").get<bool>() ? "VALID" : "INVALID";
}

Table item_table(const Json& items) {
  Table table({{"model", "model"},
               {"tp", "tp"},
               {"throughput_speedup", "throughput"},
               {"latency_speedup", "latency"},
               {"blended_speedup", "blended"},
               {"blended_low", "low"},
               {"blended_high", "high"},
               {"aligned", "aligned"},
               {"agreement", "agreement"},
               {"verdict", "verdict"}});
  for (const Json& item : items) {
    auto decimal = [&](const char* key, int digits) {
      Json value = field_of(item, key);
      return value.is_null() ? Cell() : Cell(value.get<double>(), digits);
    };
    Json agreement = field_of(item, "agreement");
    table.add_row(
        {item.at("model").get<std::string>(), item.at("tp").get<int64_t>(),
         speedup_cell(field_of(item, "throughput_speedup")), speedup_cell(field_of(item, "latency_speedup")),
         speedup_cell(field_of(item, "blended_speedup")), decimal("blended_low", 3), decimal("blended_high", 3),
         Cell(item.at("aligned"),
              fmt::format("{}/{}", item.at("aligned").get<int64_t>(), item.at("checks").get<int64_t>())),
         agreement.is_null() ? Cell() : Cell(agreement, fmt::format("{:.2f} %", 100 * agreement.get<double>())),
         state_of(item)});
  }
  return table;
}

Table workload_table(const Json& items) {
  Table table({{"model", "model"},
               {"tp", "tp"},
               {"workload", "workload"},
               {"baseline", "baseline"},
               {"candidate", "candidate"},
               {"unit", "unit"},
               {"speedup", "speed-up"},
               {"low", "low"},
               {"high", "high"},
               {"verdict", "verdict"},
               {"control_error", "A/A"}});
  for (const Json& item : items)
    for (const Json& w : item.at("workloads")) {
      auto decimal = [&](const char* key, int digits) { return Cell(w.at(key).get<double>(), digits); };
      int digits = w.at("unit") == "ms" ? 3 : 1;
      table.add_row({item.at("model").get<std::string>(), item.at("tp").get<int64_t>(),
                     w.at("workload").get<std::string>(), decimal("baseline", digits), decimal("candidate", digits),
                     w.at("unit").get<std::string>(), speedup_cell(w.at("speedup")), decimal("low", 3),
                     decimal("high", 3), w.at("verdict").get<std::string>(),
                     Cell(w.at("control_error"), fmt::format("{:.1f} %", 100 * w.at("control_error").get<double>()))});
    }
  return table;
}

Table category_table(const Json& score) {
  Table table({{"category", "category"},
               {"items", "items"},
               {"valid", "valid"},
               {"speedup", "speed-up"},
               {"correctness", "correctness"},
               {"coverage", "coverage"}});
  for (const Json& c : score.at("categories"))
    table.add_row({c.at("category").get<std::string>(), c.at("items").get<int64_t>(), c.at("valid").get<int64_t>(),
                   speedup_cell(c.at("speedup")), Cell(c.at("correctness").get<double>(), 3),
                   Cell(c.at("coverage").get<double>(), 3)});
  return table;
}

std::string reasons_text(const Json& items) {
  std::string text;
  for (const Json& item : items) {
    std::string name = fmt::format("{} on {} rank{}", item.at("model").get<std::string>(), item.at("tp").get<int64_t>(),
                                   item.at("tp") == 1 ? "" : "s");
    if (item.at("status") != "ok") {
      text += fmt::format("{} failed ({}): {}\n", name, item.at("stage").get<std::string>(),
                          item.at("error").get<std::string>());
      continue;
    }
    for (const Json& w : item.at("workloads"))
      if (!w.at("aligned").get<bool>())
        text +=
            fmt::format("{}, {}: {}\n", name, w.at("workload").get<std::string>(), w.at("reason").get<std::string>());
    int64_t noisy = 0;
    for (const Json& w : item.at("workloads")) noisy += w.at("timing_note").get<std::string>().empty() ? 0 : 1;
    if (noisy > 0)
      text += fmt::format(
          "{}: the baseline's times differ too much from themselves (A/A) in {} of {} workloads; "
          "repeat it on a quieter machine or with more --rounds.\n",
          name, noisy, item.at("workloads").size());
    if (item.at("candidate_calls") == 0)
      text += fmt::format("{}: no candidate ran, so both sides ran the same kernels.\n", name);
  }
  return text;
}

// In every workload that ran the baseline differs too much from itself: the score is of noise.
bool all_too_noisy(const std::vector<Json>& items) {
  bool any = false;
  for (const Json& item : items)
    for (const Json& w : item.at("workloads")) {
      if (w.at("timing_note").get<std::string>().empty()) return false;
      any = true;
    }
  return any;
}

}  // namespace

Json eval_document(const std::vector<Json>& items, const Json& about) {
  Json document = about;
  document["items"] = items;
  document["score"] = Json();
  std::vector<EvalItem> scored;
  for (const Json& item : items) scored.push_back(score_item(item));
  std::optional<EvalScore> score = eval_score(scored);
  if (!score) return document;
  Json categories = Json::array();
  for (const CategoryScore& c : score->categories)
    categories.push_back({{"category", c.category},
                          {"items", c.items},
                          {"valid", c.valid},
                          {"correctness", c.correctness},
                          {"coverage", c.coverage},
                          {"speedup", known_number(c.speedup)}});
  std::vector<double> throughput, latency;
  int64_t aligned = 0, checks = 0;
  for (const EvalItem& e : scored) {
    if (auto t = e.throughput_speedup()) throughput.push_back(*t);
    if (auto l = e.latency_speedup()) latency.push_back(*l);
    aligned += e.aligned;
    checks += e.checks;
  }
  document["score"] = {
      {"categories", categories},
      {"macro_speedup", known_number(score->speedup)},
      {"macro_correctness", score->correctness},
      {"macro_coverage", score->coverage},
      {"macro_score", score->score},
      {"invalid", all_too_noisy(items)},
      {"avg_throughput_speedup", known_number(geometric_mean(throughput))},
      {"avg_latency_speedup", known_number(geometric_mean(latency))},
      {"alignment_rate", checks == 0 ? Json() : Json(static_cast<double>(aligned) / static_cast<double>(checks))}};
  return document;
}

void print_eval(const Json& document, const CommonOptions& common) {
  if (common.json) return print_out(dump_json(document) + "\n");
  const Json& items = document.at("items");
  if (common.csv) return workload_table(items).print(common);
  print_out(workload_table(items).to_text() + "\n" + item_table(items).to_text());
  if (std::string why = reasons_text(items); !why.empty()) print_text("\n" + why);
  const Json& score = document.at("score");
  if (score.is_null()) return print_out("\nNo item was evaluated, so there is no score.\n");
  print_out("\n" + category_table(score).to_text());
  print_out(fmt::format(
      "\nscore {:.4f}{} = speed-up {} x correctness {:.4f} x coverage {:.4f}\n", score.at("macro_score").get<double>(),
      score.at("invalid").get<bool>()
          ? " (INVALID: the baseline's times differ too much from themselves in all workloads)"
          : "",
      score.at("macro_speedup").is_null() ? "(no valid item)"
                                          : fmt::format("{:.4f}", score.at("macro_speedup").get<double>()),
      score.at("macro_correctness").get<double>(), score.at("macro_coverage").get<double>()));
  print_out(
      "Speed-ups with 99 % intervals, above 1 where the candidates are faster; aligned: workloads whose outputs are "
      "the\n"
      "baseline's, up to its own noise between batch sizes; agreement: positions with the same most likely token.\n");
  for (const Json& note : document.at("notes")) print_text(note.get<std::string>() + "\n");
}

void record_eval(Recorder& recorder, const Json& document) {
  std::vector<MetricPoint> points;
  if (const Json& score = document.at("score"); !score.is_null())
    for (const auto& [key, value] : score.items())
      if (value.is_number()) points.push_back({key, value.get<double>(), 0, now_us()});
  for (const Json& item : document.at("items")) {
    std::string name = item.at("name").get<std::string>();
    for (const char* key : {"throughput_speedup", "latency_speedup", "blended_speedup"})
      if (Json value = field_of(item, key); value.is_number())
        points.push_back({fmt::format("{}_{}", name, key), value.get<double>(), 0, now_us()});
    if (item.at("status") != "ok")
      recorder.artifact(fmt::format("errors/{}.txt", name), item.at("error").get<std::string>() + "\n");
  }
  if (!points.empty()) recorder.add(metrics_event(points));
  // The counters of every rank are in the run's folder; pages show the rest.
  Json shown = document;
  for (Json& item : shown["items"])
    for (const char* key : {"dispatches", "ranks"}) item.erase(key);
  recorder.artifact("results/eval.json", dump_json(shown) + "\n");
}

std::string eval_failure(const Json& document) {
  size_t failed = 0, invalid = 0;
  for (const Json& item : document.at("items")) {
    if (item.at("status") != "ok")
      ++failed;
    else if (!item.at("valid").get<bool>())
      ++invalid;
  }
  if (failed + invalid == 0) return "";
  return fmt::format("Of {} item{}, {} failed and {} {} invalid.", document.at("items").size(),
                     document.at("items").size() == 1 ? "" : "s", failed, invalid, invalid == 1 ? "is" : "are");
}

}  // namespace fk
