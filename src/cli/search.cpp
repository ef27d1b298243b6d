// search: which calls of a model are faster as one generated kernel, and what such kernels look like.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <set>

#include "candidate/compile_cache.h"
#include "cli/candidate_options.h"
#include "cli/compiled_path.h"
#include "cli/output.h"
#include "cli/search_report.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "compiler/model_calls.h"
#include "compiler/plan/profile_store.h"
#include "compiler/plan/search_plan.h"
#include "compiler/plan/tree_calls.h"
#include "compiler/plan/trial_process.h"
#include "core/error.h"
#include "engine/model.h"
#include "graph/graph_json.h"
#include "graph/trace.h"
#include "measure/timer.h"
#include "models/resolve.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

class Search final : public Verb {
 public:
  Search()
      : Verb("search", "Find out which calls of a model are faster as one generated kernel",
             {"fastkernels search --model tiny-qwen3 --explain", "fastkernels search --model rwkv7-2.9b --device cuda",
              "fastkernels search --model llama-3.2-1b, then fastkernels ttft --model llama-3.2-1b --load-format dummy "
              "--path eager --path compiled",
              "fastkernels search --model tiny-llama --dump found   # graphs, plans and sources",
              "fastkernels search --model tiny-llama --write-candidates tasks/candidate   # to edit",
              "fastkernels search --clear-cache   # forget what was measured"}) {}

  void add_flags(FlagSet& flags) override {
    flags.option("--model", model_, "Name of the catalog, or a folder with config.json").type_name("MODEL");
    flags.option("--load-format", load_format_, "Accepted as other verbs have it; weights are never read")
        .type_name("FORMAT");
    budget_flag_ =
        &flags.option("--budget", budget_, "Kernels to measure; known ones cost nothing [all]").type_name("N");
    flags.flag("--explain", explain_,
               "What every kernel computes and replaces, why it was chosen or not, and the rules");
    flags.option("--dump", dump_, "Folder for graphs, plans and generated sources").type_name("DIR");
    flags
        .option("--write-candidates", candidates_folder_,
                "Folder to write a candidate for every operator with a definition to; nothing is measured")
        .type_name("DIR");
    flags.flag("!--no-measure", measure_, "Write and compile the kernels, and do not time them");
    flags.flag("--clear-cache", clear_, "Forget what earlier searches measured");
    flags
        .option("--trial-request", trial_request_, "Try the kernels that another search wrote to this file; for itself")
        .type_name("FILE");
    add_candidate_options(flags, candidates_);
  }

  void run(const CommonOptions& common) override {
    if (!trial_request_.empty()) {
      activate_candidates(candidates_, common);
      return serve_trials(trial_request_);
    }
    if (clear_) {
      int64_t entries = ProfileStore().clear();
      if (!common.quiet) print_out(fmt::format("{} measurements forgotten\n", entries));
      if (model_.empty()) return;
    }
    if (model_.empty()) throw UsageError("search needs --model; `fastkernels list` shows the catalog.");
    if (budget_flag_->given() && budget_ < 1)
      throw UsageError("--budget must be at least 1; with --no-measure kernels are written and not measured.");
    ModelSource source = resolve_model(model_);
    if (!candidates_folder_.empty()) {
      if (common.device.kind != DeviceKind::kCpu)
        throw UsageError("--write-candidates writes candidates for the CPU; use --device cpu.");
      return write_candidates(source, common);
    }

    Stopwatch all;
    SearchOptions options{.threads = common.threads, .seed = common.seed, .budget = budget_, .measure = measure_};
    options.device = common.device;
    options.trial_command = trial_command(candidates_, common);
    Progress progress(common);
    options.progress = [&](const std::string& text) { progress.show(text); };
    std::vector<CandidateRecord> judged = activate_candidates(candidates_, common);
    SearchReport found{.model = source.name};
    std::set<std::string> with_candidate, called;
    std::unique_ptr<Node> tree = build_model(source.config, {.device = common.device});
    for (const ImplementationInfo* by : tree->implementations())
      if (!by->any_device && by->device == common.device.kind && !by->is_oracle) found.whole.emplace_back(by->name);
    for (const CandidateRecord& record : judged) {
      options.calls_version += record.op + record.identity + " ";
      with_candidate.insert(record.op);
    }
    for (GraphPhase phase : phases_of(source)) {
      progress.show(fmt::format("{}: tracing", phase_name(phase)));
      Stopwatch tracing;
      std::unique_ptr<Node> root = build_model(source.config, {.oracle = true});
      Graph graph = trace_graph(*root, source.name, phase, source.config.facts.dtype);
      found.trace_s += tracing.elapsed_s();
      for (const GraphBody& body : graph.bodies)
        for (const GraphNode& node : body.nodes) called.insert(node.op);
      found.plans.push_back(search_plan(calls_of_tree(graph, *tree).flat, phase, options));
      if (options.budget > 0)
        for (const KernelChoice& k : found.plans.back().kernels)
          options.budget -= k.tried && !k.known && options.budget > 0 ? 1 : 0;
      if (!dump_.empty()) dump(graph, found.plans.back(), common.device);
    }
    for (const std::string& op : with_candidate)
      if (called.count(op) > 0) found.candidates.push_back(op);
    found.total_s = all.elapsed_s();
    print_search(found, explain_, common);
    if (!dump_.empty() && !common.json && !common.csv && !common.quiet)
      print_out(fmt::format("graphs, plans and sources are in {}\n", dump_));
  }

 private:
  static std::vector<GraphPhase> phases_of(const ModelSource& source) {
    if (is_stateless(source.config.facts.task)) return {GraphPhase::kEncode};
    return {GraphPhase::kPrefill, GraphPhase::kDecode, GraphPhase::kMixed};
  }

  static void write(const fs::path& path, const std::string& text) {
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error || !write_whole(path.string(), text))
      throw Error("{} cannot be written; give another folder.", path.string());
  }

  void dump(const Graph& graph, const PhasePlan& plan, Device device) const {
    fs::path folder = fs::path(dump_);
    std::string phase(phase_name(plan.phase));
    write(folder / (phase + ".graph.json"), dump_json(graph_to_json(graph)) + "\n");
    write(folder / (phase + ".plan.json"), dump_json(plan_json(plan)) + "\n");
    write(folder / (phase + (device == kCpu ? ".cpp" : ".cu")), plan.source);
  }

  void write_candidates(const ModelSource& source, const CommonOptions& common) const {
    std::vector<Graph> graphs;
    for (GraphPhase phase : phases_of(source)) {
      std::unique_ptr<Node> root = build_model(source.config, {.oracle = true});
      graphs.push_back(trace_graph(*root, source.name, phase, source.config.facts.dtype));
    }
    Table table({{"operator", "OPERATOR"},
                 {"calls", "CALLS"},
                 {"shapes", "SHAPES"},
                 {"kernels", "KERNELS"},
                 {"why", "WHY NOT"}});
    for (const OperatorCalls& calls : calls_of_model(graphs)) {
      GeneratedCandidate generated = generate_candidate(*calls.op, calls.shapes);
      const std::string name(calls.op->name);
      fs::path file = fs::path(candidates_folder_) / "L1" / (name + ".cpp");
      if (generated.covered > 0) {
        if (fs::exists(file)) throw Error("{} exists; move it away, or give another folder.", file.string());
        write(file, generated.source);
      }
      std::set<std::string> why(generated.refusals.begin(), generated.refusals.end());
      why.erase("");
      table.add_row({name, calls.calls, static_cast<int64_t>(calls.shapes.size()),
                     static_cast<int64_t>(generated.covered), fmt::format("{}", fmt::join(why, "; "))});
    }
    table.print(common);
  }

  std::string model_, load_format_, dump_, candidates_folder_, trial_request_;
  int64_t budget_ = -1;
  Flag* budget_flag_ = nullptr;
  bool explain_ = false, measure_ = true, clear_ = false;
  CandidateOptions candidates_;
};

Search search_verb;

}  // namespace
}  // namespace fk
