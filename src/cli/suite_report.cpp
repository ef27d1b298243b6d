#include "cli/suite_report.h"

#include <fmt/format.h>

#include "cli/output.h"
#include "cli/table.h"
#include "track/records_json.h"

namespace fk {
namespace {

// "same", "differ", or nothing where they were not compared.
Cell outputs_cell(const TtftRecord& t) {
  auto outputs = t.details.find("outputs");
  if (outputs == t.details.end() || !outputs->contains("equal")) return {};
  const bool equal = outputs->at("equal").get<bool>();
  if (equal) return Cell(Json(true), "same");
  if (!outputs->contains("first_difference")) return Cell(Json(false), "DIFFER");
  return Cell(Json(false), fmt::format("from {}", outputs->at("first_difference").at("step").get<int64_t>() + 1));
}

Cell spread_cell(const TtftRecord& t) {
  auto spread = t.details.find("spread");
  if (spread == t.details.end()) return {};
  const double value = spread->value("tpot", spread->value("ttft", 0.0));
  return Cell(Json(value), fmt::format("{:.1f} %", 100 * value));
}

Table suite_table(const std::vector<SuiteResult>& results) {
  Table table({{"config", "config"},
               {"path", "path"},
               {"search_iters", "budget"},
               {"ttft_sequential_ms", "TTFT seq. ms"},
               {"ttft_ms", "TTFT ms"},
               {"tpot_ms", "TPOT ms"},
               {"throughput_tps", "tok/s"},
               {"compile_ms", "search ms"},
               {"spread", "spread"},
               {"outputs_equal", "outputs"},
               {"peak_memory_bytes", "peak MiB"},
               {"note", "note"}});
  for (const SuiteResult& r : results) {
    const TtftRecord& t = r.record;
    table.add_row({t.config, t.path, t.search_iters ? Cell(*t.search_iters) : Cell(), Cell(t.ttft_sequential_ms, 3),
                   Cell(t.ttft_ms, 3), Cell(t.tpot_ms, 3), Cell(t.throughput_tps, 1), Cell(t.compile_ms, 0),
                   spread_cell(t), outputs_cell(t),
                   t.peak_memory_bytes
                       ? Cell(Json(*t.peak_memory_bytes),
                              fmt::format("{:.0f}", static_cast<double>(*t.peak_memory_bytes) * 0x1p-20))
                       : Cell(),
                   r.failed()       ? Cell("FAILED: " + t.error)
                   : t.note.empty() ? Cell()
                                    : Cell(t.note)});
  }
  return table;
}

}  // namespace

Json suite_json(const std::vector<SuiteResult>& results, const std::string& mode, const std::string& file) {
  Json json = {{"version", FK_VERSION}, {"suite", file}, {"mode", mode}, {"results", suite_table(results).to_json()}};
  json["rows"] = Json::array();
  for (const SuiteResult& r : results) {
    Json row = to_json(r.record);
    for (const char* of_the_run : {"run_id", "run_name", "started_us", "git_commit"}) row.erase(of_the_run);
    row["status"] = r.failed() ? "failed" : r.skipped ? "skipped" : "measured";
    json["rows"].push_back(std::move(row));
  }
  return json;
}

void print_suite(const std::vector<SuiteResult>& results, const std::string& mode, const CommonOptions& common) {
  const Table table = suite_table(results);
  if (common.csv) return table.print(common);
  if (results.empty()) return;
  print_out(fmt::format("{}: every row in a process of its own, one after the other\n\n", mode));
  print_out(table.to_text());
  std::string text;
  for (const SuiteResult& r : results) {
    auto outputs = r.record.details.find("outputs");
    if (outputs == r.record.details.end()) continue;
    text += fmt::format("\n{}, {} and {}: {}", r.record.config, outputs->at("reference").get<std::string>(), r.label(),
                        outputs->at("text").get<std::string>());
  }
  if (!text.empty()) print_text("\noutputs" + text + "\n");
  print_out(
      "\nTTFT seq.: the prompt token by token; TTFT: one pass; TPOT: a step after it; medians. Speeds of rows measured "
      "one after\nthe other differ by what the machine does meanwhile: `ttft --path A --path B` compares two with an "
      "interval.\n");
}

}  // namespace fk
