// history: lists, compares, imports and exports stored runs.
#include "cli/history.h"

#include <fmt/format.h>

#include <limits>

#include "cli/output.h"
#include "cli/record_options.h"
#include "cli/verb.h"
#include "core/error.h"
#include "track/import.h"
#include "track/time_text.h"

namespace fk {
namespace {

class History final : public Verb {
 public:
  History()
      : Verb("history", "Show, compare, import and export earlier runs",
             {"fastkernels history --limit 5", "fastkernels history --op rms_norm --since 3d",
              "fastkernels history --best", "fastkernels history --tag nightly --name softmax",
              "fastkernels history --where 'metrics.avg_speedup > 1.1 and tags.tier = \"kernel\"'",
              "fastkernels history show last", "fastkernels history diff 1f0c9a7e last",
              "fastkernels history import bench/results/kernels_*.json",
              "fastkernels history export --out runs.jsonl"}) {}

  void add_flags(FlagSet& flags) override {
    flags.option("--db", db_, "History to read [" + default_store_path() + "]").type_name("FILE");
    flags.option("--op", query_.op, "One operator over the runs; with --best, only this one");
    flags.flag("--best", best_, "The fastest confirmed candidate of each operator and set of scenarios, and its run");
    limit_flag_ = &flags.option("--limit", query_.limit, "Runs to show; 20 unless given, -1 for all")
                       .range(-1, int64_t{1} << 40)
                       .type_name("N");
    flags.option("--offset", query_.offset, "Runs to leave out first")
        .range(0, std::numeric_limits<int64_t>::max())
        .type_name("N");
    flags.option("--since", since_,
                 "Runs since 2026-11-15, '2026-11-15 07:32', today, yesterday, or an age: 30m, 2h, 3d, 1w");
    flags.option("--model", query_.model, "Runs with results of models whose names begin with this");
    flags.option("--device", query_.device, "Runs on this device (cpu, cuda:0), or one whose name holds this text");
    flags.option("--tier", query_.tier, "Runs of this kind").one_of({"kernel", "ttft", "e2e", "eval", "search", "agent"});
    flags.option("--name", query_.name, "Runs whose names hold this text");
    flags.option("--tag", query_.tags, "Runs with this tag, KEY or KEY=VALUE; several must all be there")
        .type_name("TAG");
    flags.option("--where", query_.where,
                 "MLflow's filter: metrics.KEY, params.KEY, tags.KEY or an attribute, joined by and");
    flags.option("--search", query_.text, "Runs with this text in id, name, tags, commit or operators");

    FlagSet& show = flags.action("show", "One run: environment, parameters, metrics, results, artifacts", action_);
    show.words("run", runs_, "Id, its first or last characters, or `last`").required().exactly(1);
    show.option("--artifact", artifact_, "Print this artifact instead, for example kernels/rms_norm.cpp");
    FlagSet& diff =
        flags.action("diff", "Two runs: what changed, whether beyond noise, and the candidates' sources", action_);
    diff.words("runs", runs_, "Two ids").required().exactly(2);
    FlagSet& rm = flags.action("rm", "Remove runs with all that belongs to them", action_);
    rm.words("runs", runs_, "Ids").required();
    FlagSet& import = flags.action(
        "import", "Import journals, result files and exports of other machines; a second import changes nothing",
        action_);
    import.words("files", files_, "Files").required();
    FlagSet& out =
        flags.action("export", "Write runs as JSON lines that `import` takes, or with --csv as a table", action_);
    out.words("runs", runs_, "Ids; all that the flags of `history` select unless given");
    out.option("--table", table_, "With --csv: which rows")
        .one_of({"runs", "results", "ttft", "metrics"})
        .show_default();
    out.option("--out", out_, "File to write instead of standard output");
  }

  void run(const CommonOptions& common) override {
    if (!since_.empty()) query_.since_us = parse_since(since_, now_us());
    if (action_ == "import") return import_files(common);
    if (action_ == "rm") return remove_runs(common);
    std::unique_ptr<StoreReader> store = open_for_reading();
    if (action_ == "show") return show(*store, common);
    if (action_ == "diff")
      return print_diff(*store, store->resolve_run(runs_[0]), store->resolve_run(runs_[1]), common);
    if (action_ == "export") return export_runs(*store, chosen(*store), table_, out_, common);
    if (best_) return print_best(*store, query_, common);
    if (!query_.op.empty()) return print_operator_history(*store, query_, common);
    print_runs(*store, query_, common);
  }

 private:
  // Also marks runs whose process died as interrupted, if the file can be written.
  std::unique_ptr<StoreReader> open_for_reading() const {
    std::unique_ptr<StoreReader> store = open_store_reader(db_);
    if (Store* writable = dynamic_cast<Store*>(store.get())) {
      try {
        close_dead_runs(*writable);
      } catch (const Error&) {  // it only reads then
      }
    }
    return store;
  }

  void show(StoreReader& store, const CommonOptions& common) const {
    std::string id = store.resolve_run(runs_[0]);
    if (artifact_.empty()) return print_run(store, id, common);
    for (const ArtifactRecord& a : store.artifacts(id))
      if (a.path == artifact_) return print_out(store.artifact(a.sha256));
    throw Error("The run {} has no artifact {}; `fastkernels history show {}` lists those it has.", id, artifact_, id);
  }

  std::vector<std::string> chosen(StoreReader& store) const {
    std::vector<std::string> ids;
    for (const std::string& abbreviation : runs_) ids.push_back(store.resolve_run(abbreviation));
    if (!ids.empty()) return ids;
    RunQuery all = query_;
    if (!limit_flag_->given()) all.limit = -1;
    all.oldest_first = true;
    for (const RunRecord& r : store.runs(all)) ids.push_back(r.id);
    return ids;
  }

  void remove_runs(const CommonOptions& common) const {
    open_store_reader(db_);  // rm makes no store where there is none
    std::unique_ptr<Store> store = open_store(db_);
    std::vector<std::string> ids;
    for (const std::string& abbreviation : runs_) ids.push_back(store->resolve_run(abbreviation));
    for (const std::string& id : ids) {
      store->remove_run(id);
      if (!common.quiet) print_out(fmt::format("Removed {}.\n", id));
    }
  }

  void import_files(const CommonOptions& common) const {
    std::unique_ptr<Store> store = open_store(db_);
    for (const std::string& file : files_) {
      ImportResult r = import_file(*store, file);
      std::string line =
          fmt::format("{}: {} run{} added, {} known already", file, r.added, r.added == 1 ? "" : "s", r.known);
      if (r.damaged > 0) line += fmt::format(", {} damaged line{} left out", r.damaged, r.damaged == 1 ? "" : "s");
      if (!common.quiet) print_out(line + "\n");
    }
  }

  RunQuery query_;
  const Flag* limit_flag_ = nullptr;
  bool best_ = false;
  std::string db_, since_, action_, artifact_, table_ = "results", out_;
  std::vector<std::string> runs_, files_;
};

History history_verb;

}  // namespace
}  // namespace fk
