// dashboard_file and report_file: which replies an offline file must contain.
#include <algorithm>
#include <set>

#include "core/error.h"
#include "web/api.h"
#include "web/escape.h"
#include "web/overview.h"
#include "web/page.h"
#include "web/web.h"

namespace fk {
namespace {

constexpr int kRunsWithSamples = 10;       // samples are most of a run's size
constexpr int64_t kMostArtifact = 262144;  // larger files are left out

class Carried {
 public:
  explicit Carried(StoreReader& store) : store_(store) {}

  void put(const std::string& path, Json answer) { data_[path] = std::move(answer); }

  void put_run(const std::string& id, bool samples, bool all_files) {
    if (id.empty() || !runs_.insert(id).second) return;
    std::optional<Json> run = run_page_json(store_, id);
    if (!run) return;
    for (const Json& a : (*run)["artifacts"]) {
      bool source = a["path"].get_ref<const std::string&>().starts_with("kernels/");
      if ((source || all_files) && a["size_bytes"].get<int64_t>() <= kMostArtifact) put_source(a["sha256"]);
    }
    // What did not pass has a picture of its wrong elements, however old it is.
    for (const Json& r : (*run)["results"])
      if (samples || r["verdict"] != "PASSED")
        if (auto found = samples_json(store_, id, r["op"], r["scenario"]))
          put("/api/samples/" + url_part(id) + "/" + url_part(r["op"].get<std::string>()) + "/" +
                  url_part(r["scenario"].get<std::string>()),
              std::move(*found));
    put("/api/run/" + url_part(id), std::move(*run));
  }

  void put_source(const std::string& sha256) {
    std::string path = "/api/source/" + sha256;
    if (data_.contains(path)) return;
    try {
      if (auto found = source_json(store_, sha256)) put(path, std::move(*found));
    } catch (const Error&) {
      // A missing or changed file is left out; the page lists only what it contains.
    }
  }

  const Json& data() const { return data_; }

 private:
  StoreReader& store_;
  Json data_ = Json::object();
  std::set<std::string> runs_;
};

}  // namespace

std::string web_unavailable() { return ""; }

std::string dashboard_file(StoreReader& store, int runs) {
  Carried carried(store);
  Json overview = overview_json(store);
  RunQuery query;
  query.limit = runs;
  int count = 0;
  for (const RunRecord& run : store.runs(query)) {
    carried.put_run(run.id, count < kRunsWithSamples, count < kRunsWithSamples);
    ++count;
  }
  // Everything that the first page links to is included, however old.
  for (const char* list : {"regressions", "changes", "model_regressions", "model_changes"})
    for (const Json& r : overview[list])
      for (const char* key : {"good_run", "bad_run", "latest_run"}) carried.put_run(r[key], false, false);
  for (const Json& b : overview["best"]) {
    carried.put_run(b["run_id"], false, false);
    std::string op = b["op"];
    Json page = operator_page_json(store, op);
    for (const Json& s : page["sources"]) carried.put_source(s["sha256"]);
    if (!page["runs"].empty()) carried.put_run(page["runs"][0]["run_id"], false, false);
    carried.put("/api/operator/" + url_part(op), std::move(page));
  }
  for (const Json& m : overview["models"]) {
    std::string model = m["model"];
    carried.put("/api/model/" + url_part(model), model_page_json(store, model));
  }
  carried.put("/api/runs", runs_json(store, std::max(runs, 1000)));
  carried.put("/api/overview", std::move(overview));
  carried.put("start", "#/");
  return offline_page(carried.data());
}

std::string report_file(StoreReader& store, const std::string& run_id) {
  std::optional<RunRecord> run = store.run(run_id);
  if (!run) throw Error("There is no run {}; `fastkernels history` lists those there are.", run_id);
  Carried carried(store);
  carried.put_run(run_id, true, true);
  for (const char* key : {"/api/runs", "/api/overview"}) {
    Json one = {{"total", 1}, {"runs", Json::array()}, {"best", Json::array()}, {"models", Json::array()}};
    carried.put(key, one);
  }
  carried.put("start", "#/report/" + url_part(run_id));
  return offline_page(carried.data());
}

}  // namespace fk
