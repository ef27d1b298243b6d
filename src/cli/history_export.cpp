// `history export`: runs as JSON lines for another store, or as CSV for other programs.
#include <fmt/format.h>

#include <optional>

#include "cli/history.h"
#include "cli/output.h"
#include "cli/table.h"
#include "core/output_file.h"
#include "track/events.h"
#include "track/records_json.h"

namespace fk {
namespace {

// Every record of these as one CSV: the columns are the keys of its JSON.
template <class Record>
std::string csv_of(const std::vector<Record>& records, const Record& example) {
  std::vector<Table::Column> columns;
  Json keys = to_json(example);
  for (const auto& [key, value] : keys.items()) columns.push_back({key, key});
  Table table(columns);
  for (const Record& r : records) {
    Json json = to_json(r);
    std::vector<Cell> row;
    for (const Table::Column& c : columns) row.emplace_back(json.value(c.key, Json()), "");
    table.add_row(std::move(row));
  }
  return table.to_csv();
}

struct NamedPoint : MetricPoint {
  std::string run_id;
};

Json to_json(const NamedPoint& p) {
  Json json = {{"run_id", p.run_id}};
  json.update(to_json(static_cast<const MetricPoint&>(p)));
  return json;
}

template <class Record>
void append(std::vector<Record>& all, std::vector<Record> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::string csv_text(StoreReader& store, const std::vector<std::string>& ids, const std::string& table) {
  if (table == "runs") {
    std::vector<RunRecord> rows;
    for (const std::string& id : ids) {
      rows.push_back(store.run(id).value());
      rows.back().environment.details = Json();
    }
    return csv_of(rows, RunRecord());
  }
  if (table == "metrics") {
    std::vector<NamedPoint> rows;
    for (const std::string& id : ids)
      for (MetricPoint& p : store.metric_points(id)) rows.push_back({std::move(p), id});
    return csv_of(rows, NamedPoint());
  }
  if (table == "ttft") {
    std::vector<TtftRecord> rows;
    for (const std::string& id : ids) append(rows, store.ttft_results(id));
    return csv_of(rows, TtftRecord());
  }
  std::vector<KernelRecord> rows;
  for (const std::string& id : ids) append(rows, store.kernel_results(id));
  return csv_of(rows, KernelRecord());
}

}  // namespace

void export_runs(StoreReader& store, const std::vector<std::string>& run_ids, const std::string& table,
                 const std::string& out_path, const CommonOptions& common) {
  std::optional<OutputFile> file;
  if (!out_path.empty()) file.emplace(out_path);
  auto write = [&](const std::string& text) { file ? file->write(text) : print_out(text); };
  if (common.csv && !file) {
    print_csv(csv_text(store, run_ids, table));
  } else if (common.csv) {
    write(csv_text(store, run_ids, table));
  } else {
    for (const std::string& id : run_ids)
      for_each_event(store, id, [&](const Json& event) { write(dump_json(event, -1) + "\n"); });
  }
  if (file) file->finish();
  if (!out_path.empty() && common.text() && !common.quiet)
    print_text(fmt::format("{} run{} in {}.\n", run_ids.size(), run_ids.size() == 1 ? "" : "s", out_path));
}

}  // namespace fk
