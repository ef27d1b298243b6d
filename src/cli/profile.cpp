// profile: explains what limits an operator's baseline and candidate, compared with the machine's limits.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "bench/kernels/kernel_floor.h"
#include "bench/profile/kernel_words.h"
#include "bench/profile/plain_call.h"
#include "bench/profile/profile_tools.h"
#include "bench/scenarios/generate.h"
#include "candidate/compiler_process.h"
#include "candidate/swap.h"
#include "cli/candidate_options.h"
#include "cli/output.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/bench_folder.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "core/loose_json.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

// The measurements of one side, made in a separate process.
struct Side {
  std::string name;  // "baseline" or "candidate"
  std::string implementation;
  double ns = 0;
  std::vector<ProfiledKernel> kernels = {};
  std::string report = {};
  std::vector<std::string> sentences = {};
};

class Profile final : public Verb {
 public:
  Profile()
      : Verb("profile", "Say what limits an operator: memory, arithmetic, occupancy, stalls",
             {"fastkernels profile --target rms_norm --scenario decode-8",
              "fastkernels profile --device cuda --target softmax --json"}) {}

  void add_flags(FlagSet& flags) override {
    flags.option("--target", target_, "The operator").required().type_name("OPERATOR");
    flags.option("--scenario", scenario_, "Part of the scenario's name; of several the largest").type_name("TEXT");
    flags.option("--model", model_,
                 "Scenarios of models whose names begin with this, or `all`; llama-3.2-1b unless given");
    add_cxxflags(flags, cxxflags_, "More flags for the candidate's compiler");
    flags.flag("--allow-libraries", allow_libraries_, "Link CUDA candidates with cuBLAS and cuBLASLt");
    flags.option("--out", out_, "Folder for reports [" + bench_folder() + "/profiles/<operator>_<time>]")
        .type_name("DIR");
    flags.option("--timeout", timeout_s_, "Seconds a tool may take").check(seconds_complaint).show_default();
    flags.option("--inner", inner_, "").hidden();  // this program, started again under a profiler
  }

  void run(const CommonOptions& common) override {
    Scenario scenario = choose();
    if (!inner_.empty()) return run_inner(scenario, common);
    Progress progress(common);
    progress.show("measuring what this machine can do");
    ThreadPool pool(common.threads);
    Cost cost = scenario.info().cost(scenario.init, scenario.workload);
    Floor floor = KernelFloor(pool, common.device).floor(cost, scenario.workload.dtype, false);
    make_folder();
    std::vector<Side> sides;
    std::vector<std::string> notes;
    sides.push_back(look_at("baseline", scenario, common, notes, progress));
    if (has_candidate(common))
      sides.push_back(look_at("candidate", scenario, common, notes, progress));
    else
      notes.push_back(fmt::format("There is no candidate for {} in {}, so only the baseline was profiled.", target_,
                                  candidate_folder()));
    progress.show("");
    print(scenario, cost, floor, sides, notes, common);
  }

 private:
  Scenario choose() const {
    ScenarioSelection select;
    Registry::instance().at(target_);  // an error with the closest name
    select.target = target_;
    select.tp = {1};
    if (model_ != "all") select.models = {model_.empty() ? "llama-3.2-1b" : model_};
    std::vector<Scenario> all = generate_scenarios(select).scenarios;
    if (all.empty() && model_.empty()) {  // no model uses the operator: the cases of its contract
      select.models.clear();
      all = generate_scenarios(select).scenarios;
    }
    for (const Scenario& s : all)
      if (s.name == scenario_) return s;
    // The one that moves the most bytes: small calls say little about a kernel.
    const Scenario* largest = nullptr;
    auto bytes = [](const Scenario& s) { return s.info().cost(s.init, s.workload).bytes(); };
    for (const Scenario& s : all)
      if (s.name.find(scenario_) != std::string::npos && (largest == nullptr || bytes(s) > bytes(*largest)))
        largest = &s;
    if (largest != nullptr) return *largest;
    throw Error(
        "No scenario of {} has '{}' in its name; `fastkernels kernels --list --target {} --self-test` shows them.",
        target_, scenario_, target_);
  }

  bool has_candidate(const CommonOptions& common) const {
    for (const CandidateFile& file : find_candidates(candidate_folder(), common.device.kind))
      if (file.op->name == target_) return true;
    return false;
  }

  CompileOptions compile_options() const {
    return {.cxxflags = split_flags(cxxflags_), .allow_libraries = allow_libraries_};
  }

  void make_folder() {
    if (out_.empty())
      out_ =
          fmt::format("{}/profiles/{}_{:%Y%m%d-%H%M%S}", bench_folder(), target_, fmt::localtime(std::time(nullptr)));
    std::error_code error;
    fs::create_directories(out_, error);
    if (error) throw Error("The folder {} cannot be made ({}); name another with --out.", out_, error.message());
  }

  // The profiled process: a few warm-up calls, then the marked calls that are measured.
  void run_inner(const Scenario& scenario, const CommonOptions& common) const {
    if (inner_ == "candidate")
      swap_in({find_candidate(candidate_folder(), scenario.info(), common.device.kind)}, compile_options());
    PlainCall call(scenario, common.device, common.threads, common.seed);
    constexpr int kWarm = 3;
    for (int i = 0; i < kWarm; ++i) call.run();
    constexpr int kTimed = 30;
    double ns = call.median_ns(kTimed);
    call.mark_for_profiler(true);
    call.run();
    call.mark_for_profiler(false);
    print_out(Json{{"ns", ns}, {"implementation", call.implementation()}}.dump() + "\n");
  }

  std::vector<std::string> inner_command(const std::string& side, const Scenario& scenario,
                                         const CommonOptions& common) const {
    std::vector<std::string> command = {fs::read_symlink("/proc/self/exe").string(),
                                        "profile",
                                        "--inner",
                                        side,
                                        "--target",
                                        target_,
                                        "--scenario",
                                        scenario.name,
                                        "--device",
                                        device_name(common.device),
                                        "--threads",
                                        std::to_string(common.threads),
                                        "--seed",
                                        std::to_string(common.seed)};
    if (!model_.empty()) command.insert(command.end(), {"--model", model_});
    if (!cxxflags_.empty()) command.insert(command.end(), {"--cxxflags", cxxflags_});
    if (allow_libraries_) command.emplace_back("--allow-libraries");
    return command;
  }

  Side look_at(const std::string& name, const Scenario& scenario, const CommonOptions& common,
               std::vector<std::string>& notes, Progress& progress) const {
    Side side{.name = name, .implementation = ""};
    std::vector<std::string> command = inner_command(name, scenario, common);
    int limit_ms = static_cast<int>(timeout_s_ * 1000);
    progress.show("running the " + name);
    CompilerRun plain = run_compiler(command, limit_ms);
    Json said = parse_loosely(plain.log);
    if (!plain.succeeded() || !said.is_object())
      throw Error("The {} of {} did not run: {}", name, target_, plain.timed_out ? "it took too long." : plain.log);
    side.ns = said.value("ns", 0.0);
    side.implementation = said.value("implementation", "");
    auto note = [&](const std::string& text) {
      if (!text.empty() && std::find(notes.begin(), notes.end(), text) == notes.end()) notes.push_back(text);
    };
    if (common.device != kCpu) {
      std::optional<std::string> ncu = find_ncu();
      if (!ncu) {
        note(
            "Nsight Compute (ncu) is not installed, so only times and rates are known; it comes with the CUDA "
            "toolkit.");
        return side;
      }
      progress.show("profiling the " + name);
      NcuRun run = run_ncu(*ncu, command, fmt::format("{}/{}", out_, name), limit_ms);
      note(run.problem);
      side.kernels = std::move(run.kernels);
      side.report = run.report;
      return side;
    }
    progress.show("counting the " + name);
    PerfCounts counts = run_perf(command, limit_ms);
    note(counts.problem);
    if (counts.problem.empty()) side.sentences = describe(counts);
    if (name == "candidate") {
      CompileResult built =
          compile_candidate(find_candidate(candidate_folder(), scenario.info(), common.device.kind), compile_options());
      std::optional<InstructionMix> mix = instructions_of(built.so_path);
      if (!mix) note("objdump is not installed or failed, so the candidate's instructions were not counted.");
      if (mix)
        for (const std::string& line : describe(*mix)) side.sentences.push_back(line);
    }
    return side;
  }

  void print(const Scenario& scenario, const Cost& cost, const Floor& floor, const std::vector<Side>& sides,
             const std::vector<std::string>& notes, const CommonOptions& common) const {
    double flops = cost.matrix_flops + cost.vector_flops;
    Table table({{"side", "SIDE"},
                 {"implementation", "IMPLEMENTATION"},
                 {"time_ns", "TIME"},
                 {"gb_per_s", "GB/s"},
                 {"gflop_per_s", "GFLOP/s"},
                 {"of_floor", "% OF FLOOR"}});
    Json list = Json::array();
    for (const Side& s : sides) {
      double of_floor = s.ns > 0 ? floor.seconds * 1e9 / s.ns : 0;
      table.add_row({s.name, s.implementation, Cell(Json(s.ns), fmt::format("{:.2f} us", s.ns * 1e-3)),
                     Cell(cost.bytes() / s.ns, 1), Cell(flops / s.ns, 1),
                     Cell(Json(of_floor), fmt::format("{:.0f} %", 100 * of_floor))});
      list.push_back(side_json(s, cost, floor));
    }
    if (common.json)
      return print_out(dump_json({{"operator", scenario.op},
                                  {"scenario", scenario.name},
                                  {"device", device_name(common.device)},
                                  {"bytes", cost.bytes()},
                                  {"flops", flops},
                                  {"floor_ns", floor.seconds * 1e9},
                                  {"limited_by", floor.bytes_s() >= floor.flops_s ? "memory" : "arithmetic"},
                                  {"sides", list},
                                  {"notes", notes},
                                  {"folder", out_}}) +
                       "\n");
    if (common.csv) return table.print(common);
    print_text(
        fmt::format("{} {} on {}: at least {:.3f} MB moved and {:.3f} GFLOP done; floor {:.2f} us, set by {}.\n\n",
                    scenario.op, scenario.name, device_name(common.device), cost.bytes() * 1e-6, flops * 1e-9,
                    floor.seconds * 1e6, floor.bytes_s() >= floor.flops_s ? "memory" : "arithmetic"));
    print_out(table.to_text() + "\n");
    print_kernels(sides);
    for (const Side& s : sides) {
      for (const std::string& line : s.sentences) print_text(fmt::format("{}: {}\n", s.name, line));
      if (!s.report.empty()) print_text(fmt::format("{}: everything measured is in {}\n", s.name, s.report));
    }
    for (const std::string& note : notes) print_text(note + "\n");
    print_out("These times are taken without a judge and warm; `fastkernels kernels` decides which is faster.\n");
  }

  static Json side_json(const Side& s, const Cost& cost, const Floor& floor) {
    Json kernels = Json::array();
    for (const ProfiledKernel& k : s.kernels) {
      Json metrics = Json::object();
      for (const auto& [name, value] : k.metrics) metrics[name] = value;
      kernels.push_back({{"name", k.name}, {"sentences", describe_kernel(k)}, {"metrics", metrics}});
    }
    return {{"side", s.name},
            {"implementation", s.implementation},
            {"time_ns", s.ns},
            {"gb_per_s", s.ns > 0 ? cost.bytes() / s.ns : 0},
            {"of_floor", s.ns > 0 ? floor.seconds * 1e9 / s.ns : 0},
            {"sentences", s.sentences},
            {"kernels", kernels},
            {"report", s.report}};
  }

  // Side by side: a column for each kernel, its side above it; then what its numbers mean.
  static void print_kernels(const std::vector<Side>& sides) {
    constexpr size_t kShown = 4;  // of a side, the longest
    std::vector<std::pair<const Side*, const ProfiledKernel*>> shown;
    for (const Side& s : sides)
      for (size_t i = 0; i < std::min(kShown, s.kernels.size()); ++i) shown.emplace_back(&s, &s.kernels[i]);
    if (shown.empty()) return;
    std::vector<Table::Column> columns = {{"number", ""}};
    std::vector<std::vector<KernelNumber>> numbers;
    for (const auto& [side, kernel] : shown) {
      columns.push_back({kernel->name, fmt::format("{}: {}", side->name, short_name(*kernel))});
      numbers.push_back(kernel_numbers(*kernel));
    }
    Table table(columns);
    for (size_t row = 0; row < numbers.front().size(); ++row) {
      std::vector<Cell> cells = {Cell(numbers.front()[row].name)};
      for (const auto& column : numbers) cells.emplace_back(column[row].text);
      table.add_row(std::move(cells));
    }
    print_out(table.to_text() + "\n");
    for (const auto& [side, kernel] : shown)
      for (const std::string& line : describe_kernel(*kernel))
        print_out(fmt::format("{}, {}: {}\n", side->name, short_name(*kernel), line));
  }

  std::string target_, scenario_, model_, cxxflags_, out_, inner_;
  bool allow_libraries_ = false;
  double timeout_s_ = 300;
};

Profile profile_verb;

}  // namespace
}  // namespace fk
