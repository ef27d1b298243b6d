// search: which calls of a model are faster as one generated kernel, and what such kernels look like.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "bench/ttft/step_trace.h"
#include "candidate/compile.h"
#include "candidate/compile_cache.h"
#include "cli/candidate_options.h"
#include "cli/compiled_path.h"
#include "cli/model_options.h"
#include "cli/output.h"
#include "cli/record_options.h"
#include "cli/search_candidates.h"
#include "cli/search_report.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "compiler/model_calls.h"
#include "compiler/plan/generated_kernel.h"
#include "compiler/plan/profile_store.h"
#include "compiler/plan/search_plan.h"
#include "compiler/plan/tree_calls.h"
#include "compiler/plan/trial_process.h"
#include "core/error.h"
#include "engine/model.h"
#include "graph/graph_json.h"
#include "graph/trace.h"
#include "measure/machine_info.h"
#include "measure/memory_room.h"
#include "measure/timer.h"
#include "models/checkpoint.h"
#include "models/checkpoint_names.h"
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
              "fastkernels search --clear-cache   # remove what was measured and compiled"}) {}

  void add_flags(FlagSet& flags) override {
    flags.option("--model", model_, "Name of the catalog, or a folder with config.json").type_name("MODEL");
    load_format_flag_ =
        &flags
             .option("--load-format", load_format_,
                     "Load weights, too (auto: the checkpoint, dummy: made up), and time whole steps by plans and by "
                     "the model's tree")
             .one_of({"auto", "dummy"});
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
    flags.flag("--clear-cache", clear_, "Remove what earlier searches measured, wrote and compiled");
    flags
        .option("--trial-request", trial_request_, "Try the kernels that another search wrote to this file; for itself")
        .type_name("FILE");
    add_candidate_options(flags, candidates_);
    add_record_options(flags, record_);
  }

  void run(const CommonOptions& common) override {
    if (!trial_request_.empty()) {
      activate_candidates(candidates_, common);
      return serve_trials(trial_request_);
    }
    if (clear_) {
      clear_cache(common);
      if (model_.empty()) return;
    }
    if (model_.empty()) throw UsageError("search needs --model; `fastkernels list` shows the catalog.");
    if (budget_flag_->given() && budget_ < 1)
      throw UsageError("--budget must be at least 1; with --no-measure kernels are written and not measured.");
    ModelSource source = resolve_model(model_);
    if (!dump_.empty()) make_folder(dump_);
    if (!candidates_folder_.empty()) {
      if (common.device.kind != DeviceKind::kCpu)
        throw UsageError("--write-candidates writes candidates for the CPU; use --device cpu.");
      return write_candidates(source, common);
    }

    if (load_format_flag_->given() && measure_) check_weights(source, common);
    RunRecord run = new_run("search", common, machine_info());
    run.name = "search " + source.name;
    run.params["model"] = source.name;
    if (load_format_flag_->given()) run.params["load_format"] = load_format_;
    Recorder recorder(recorder_options(record_, results_path("search", ".jsonl"), false), warn_on_stderr);
    recorder.start(named(std::move(run), record_));
    try {
      SearchReport found = search(source, common);
      record_search(recorder, found);
      recorder.end("finished");
      print_search(found, explain_, common);
    } catch (const std::exception& e) {
      recorder.end("failed", e.what());
      throw;
    }
    if (!dump_.empty() && !common.json && !common.csv && !common.quiet)
      print_out(fmt::format("graphs, plans and sources are in {}\n", dump_));
  }

 private:
  SearchReport search(const ModelSource& source, const CommonOptions& common) const {
    Stopwatch all;
    SearchOptions options{.threads = common.threads, .seed = common.seed, .budget = budget_, .measure = measure_};
    options.device = common.device;
    options.trial_command = trial_command(candidates_, common);
    Progress progress(common);
    options.progress = [&](const std::string& text) { progress.show(text); };
    std::vector<CandidateRecord> judged = judged_candidates_for(source, candidates_, common, progress);
    SearchReport found{.model = source.name};
    std::set<std::string> with_candidate, called;
    std::unique_ptr<Node> tree = build_model(source.config, {.device = common.device});
    for (const ImplementationInfo* by : tree->implementations())
      if (!by->any_device && by->device == common.device.kind && !by->is_oracle) found.whole.emplace_back(by->name);
    // Its tokens are not decoded by plans.
    options.products = found.whole.empty();
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
      const GraphBody flat = calls_of_tree(graph, *tree).flat;
      found.plans.push_back(search_plan(flat, phase, options));
      found.passes.push_back({{"pass", phase_name(phase)}, {"steps", planned_steps(flat, found.plans.back())}});
      if (options.budget > 0)
        for (const KernelChoice& k : found.plans.back().kernels)
          options.budget -= k.tried && !k.known && options.budget > 0 ? 1 : 0;
      if (!dump_.empty()) dump(graph, found.plans.back(), common.device);
    }
    for (const std::string& op : with_candidate)
      if (called.count(op) > 0) found.candidates.push_back(op);
    if (load_format_flag_->given() && measure_) time_steps(source, common, options, found, progress);
    found.total_s = all.elapsed_s();
    return found;
  }

  static void clear_cache(const CommonOptions& common) {
    const int64_t measurements = ProfileStore().clear();
    const RemovedKernels kernels = remove_generated();
    if (common.quiet) return;
    auto counted = [](int64_t n, std::string_view one, std::string_view many) {
      return fmt::format("{} {}", n, n == 1 ? one : many);
    };
    print_out(fmt::format("removed from {}: {}, {} of generated kernels and {}\n", default_cache_folder(),
                          counted(measurements, "measurement", "measurements"),
                          counted(kernels.sources, "source", "sources"),
                          counted(kernels.libraries, "compiled library", "compiled libraries")));
  }

  // What load_model would refuse after the search, as far as it can be known before.
  void check_weights(const ModelSource& source, const CommonOptions& common) const {
    ModelOptions chosen;
    chosen.load_format = load_format_;
    const LoadOptions load = load_options(chosen, source, common);
    check_loadable(source, load);
    if (load.format == LoadFormat::kAuto)
      static_cast<void>(source.gguf.empty() ? Checkpoint::open(source.directory) : Checkpoint::open_gguf(source.gguf));
    // On the CPU a checkpoint is read where it is, in its file.
    if (load.format == LoadFormat::kAuto && common.device == kCpu) return;
    ModelConfig config = source.config;
    config.set_dtype(load.dtype);
    std::unique_ptr<Node> root = build_model(config, {.device = common.device});
    double bytes = 0;
    for (const ParamSpec& param : checkpoint_params(*root, config))
      bytes += static_cast<double>(param.spec.size_bytes());
    require_memory(bytes, common.device, "The weights", "use a smaller model, or search without --load-format");
  }

  // The plans in place, on a loaded model.
  void time_steps(const ModelSource& source, const CommonOptions& common, const SearchOptions& options,
                  SearchReport& found, Progress& progress) const {
    Stopwatch watch;
    progress.show("loading the model");
    ThreadPool pool(common.threads);
    ModelOptions load;
    load.load_format = load_format_;
    Model model = load_model(source, load_options(load, source, common), pool);
    CompiledModel compiled(model, [&](GraphPhase phase, const GraphBody&) {
      for (const PhasePlan& plan : found.plans)
        if (plan.phase == phase) return plan.regions;
      return std::vector<PlannedRegion>();
    });
    const StepsToTime steps = usual_steps(model);
    for (const PhasePlan& plan : found.plans) {
      progress.show(fmt::format("{}: whole steps by the plan and by the tree", phase_name(plan.phase)));
      found.steps[plan.phase] =
          time_whole_steps(compiled, model, pool, plan.phase, plan.fingerprint(), steps.at(plan.phase), options);
    }
    constexpr int64_t kTracedSteps = 4;
    StepTrace trace;
    TtftOptions passes;
    passes.decode_tokens = kTracedSteps + 1;
    trace_passes(model, pool, passes, kTracedSteps, trace);
    found.passes = trace.steps();
    found.steps_s = watch.elapsed_s();
  }

  static std::vector<GraphPhase> phases_of(const ModelSource& source) {
    if (is_stateless(source.config.facts.task)) return {GraphPhase::kEncode};
    return {GraphPhase::kPrefill, GraphPhase::kDecode, GraphPhase::kMixed};
  }

  // Before the search: that it cannot be written is known then.
  static void make_folder(const fs::path& folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error || access(folder.c_str(), W_OK | X_OK) != 0)
      throw Error("{} cannot be written; give another folder.", folder.string());
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
  Flag* load_format_flag_ = nullptr;
  bool explain_ = false, measure_ = true, clear_ = false;
  CandidateOptions candidates_;
  RecordOptions record_;
};

Search search_verb;

}  // namespace
}  // namespace fk
