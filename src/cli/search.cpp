// search: kernels written from the definitions of a model's operators, and whether they or your candidates are faster
// than the baselines.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "candidate/folder.h"
#include "cli/output.h"
#include "cli/own_process.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "compiler/model_calls.h"
#include "core/bench_folder.h"
#include "core/error.h"
#include "core/json.h"
#include "engine/model.h"
#include "graph/trace.h"
#include "models/catalog.h"
#include "models/resolve.h"
#include "ops/algebra/definition.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

// What `kernels` found out about one implementation of an operator.
struct Measured {
  std::string verdict;  // of the first scenario that is not PASSED; else PASSED
  int scenarios = 0, faster = 0, slower = 0;
  double log_speedup = 0;  // the sum

  double speedup() const { return scenarios == 0 ? 0 : std::exp(log_speedup / scenarios); }
  bool wins() const { return verdict == "PASSED" && faster > 0 && slower == 0; }
  std::string text() const {
    if (scenarios == 0 && verdict.empty()) return "-";
    if (verdict != "PASSED") return verdict;
    return fmt::format("{:.2f}x ({} faster, {} slower of {})", speedup(), faster, slower, scenarios);
  }
};

class Search final : public Verb {
 public:
  Search()
      : Verb("search", "Write kernels from the definitions of a model's operators, and find out which are faster",
             {"fastkernels search --model tiny-llama --no-measure   # write the kernels only",
              "fastkernels search --model llama-3.2-1b",
              "fastkernels search --model llama-3.2-1b --out found   # then FASTKERNELS_CANDIDATE_DIR=found/plan "
              "fastkernels ttft --model llama-3.2-1b --load-format dummy --compare"}) {}

  void add_flags(FlagSet& flags) override {
    flags.option("--model", model_, "Name of the catalog").required().type_name("MODEL");
    flags.option("--out", out_, "Folder to write to [" + bench_folder() + "/search/MODEL]").type_name("DIR");
    flags.flag("!--no-measure", measure_, "Write the kernels, and neither compile nor time them");
    flags.option("--filter", filter_, "Scenarios that are timed, as `kernels --filter` takes them").show_default();
  }

  void run(const CommonOptions& common) override {
    ModelSource source = resolve_model(model_);
    if (find_catalog(source.name) == nullptr)
      throw UsageError(
          "Kernels are timed in scenarios of the catalog, which has no model '{}'; see `fastkernels list`.", model_);
    fs::path out = out_.empty() ? fs::path(bench_folder()) / "search" / source.name : fs::path(out_);
    Table table({{"operator", "OPERATOR"},
                 {"calls", "CALLS"},
                 {"shapes", "SHAPES"},
                 {"kernels", "KERNELS"},
                 {"generated", "GENERATED"},
                 {"candidate", "CANDIDATE"},
                 {"chosen", "CHOSEN"}});
    std::string reasons;
    for (const OperatorCalls& calls : calls_of_model(graphs_of(source))) {
      GeneratedCandidate generated = generate_candidate(*calls.op, calls.shapes);
      const std::string name(calls.op->name);
      fs::path file = out / "generated" / "L1" / (name + ".cpp"), planned = out / "plan" / "L1" / (name + ".cpp");
      std::error_code ignored;
      fs::remove(file, ignored);  // of an earlier search
      fs::remove(planned, ignored);
      Measured ours, theirs;
      if (generated.covered > 0) {
        write(file, generated.source);
        if (measure_) ours = measure(source.name, name, (out / "generated").string());
      }
      std::optional<std::string> candidate = candidate_of(*calls.op);
      if (candidate && measure_) theirs = measure(source.name, name, candidate_folder());
      bool take_theirs = theirs.wins() && (!ours.wins() || theirs.speedup() > ours.speedup());
      if (take_theirs)
        copy(*candidate, planned);
      else if (ours.wins())
        write(planned, generated.source);
      table.add_row({name, calls.calls, static_cast<int64_t>(calls.shapes.size()),
                     static_cast<int64_t>(generated.covered), ours.text(), theirs.text(),
                     !measure_     ? "-"
                     : take_theirs ? "candidate"
                     : ours.wins() ? "generated"
                                   : "baseline"});
      std::set<std::string> why(generated.refusals.begin(), generated.refusals.end());
      why.erase("");
      if (!why.empty()) reasons += fmt::format("{}: {}\n", name, fmt::join(why, "; "));
    }
    table.print(common);
    if (common.json || common.csv || common.quiet) return;
    if (!reasons.empty()) print_out("\nno kernel was written for\n" + reasons);
    print_out(fmt::format("\nkernels are in {}{}\n", (out / "generated").string(),
                          measure_ ? ", those that won in " + (out / "plan").string() : ""));
  }

 private:
  static std::vector<Graph> graphs_of(const ModelSource& source) {
    std::vector<GraphPhase> phases = {GraphPhase::kPrefill, GraphPhase::kDecode};
    if (is_encoder(source.config.facts.task)) phases = {GraphPhase::kEncode};
    std::vector<Graph> graphs;
    for (GraphPhase phase : phases) {
      std::unique_ptr<Node> root = build_model(source.config, {.oracle = true});
      graphs.push_back(trace_graph(*root, source.name, phase, source.config.facts.dtype));
    }
    return graphs;
  }

  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    std::ifstream check(path);
    if (!check) throw Error("{} cannot be written; give another folder with --out.", path.string());
  }

  static void copy(const fs::path& from, const fs::path& to) {
    fs::create_directories(to.parent_path());
    fs::copy_file(from, to, fs::copy_options::overwrite_existing);
  }

  static std::optional<std::string> candidate_of(const OperatorInfo& op) {
    for (const CandidateFile& file : find_candidates(candidate_folder()))
      if (file.op == &op) return file.path;
    return {};
  }

  // Judges and times the candidate of a folder as `kernels` does, in processes of their own.
  Measured measure(const std::string& model, const std::string& op, const std::string& folder) const {
    const char* before = std::getenv("FASTKERNELS_CANDIDATE_DIR");
    const std::string kept = before == nullptr ? "" : before;
    setenv("FASTKERNELS_CANDIDATE_DIR", folder.c_str(), 1);
    OwnProcess process = run_own_process({"kernels", "--target", op, "--model", model, "--filter", filter_,
                                          "--no-history", "--json", "--device", "cpu"});
    if (before == nullptr)
      unsetenv("FASTKERNELS_CANDIDATE_DIR");
    else
      setenv("FASTKERNELS_CANDIDATE_DIR", kept.c_str(), 1);
    Measured measured;
    size_t begin = process.out.find("{\n");
    if (begin == process.out.npos) {
      measured.verdict = "not measured";
      return measured;
    }
    Json result = parse_json(process.out.substr(begin), "what kernels printed");
    for (const Json& row : result.at("results")) {
      if (!row.value("scenario", "").starts_with(model + "/")) continue;
      std::string verdict = row.value("verdict", "");
      if (measured.verdict.empty() || measured.verdict == "PASSED") measured.verdict = verdict;
      auto timing = row.find("timing");
      if (verdict != "PASSED" || timing == row.end() || !timing->contains("speedup")) continue;
      ++measured.scenarios;
      measured.log_speedup += std::log(timing->at("speedup").get<double>());
      measured.faster += timing->value("speed_verdict", "") == "FASTER";
      measured.slower += timing->value("speed_verdict", "") == "SLOWER";
    }
    if (measured.verdict.empty()) measured.verdict = "no scenario";
    return measured;
  }

  std::string model_, out_, filter_ = "decode-8";
  bool measure_ = true;
};

Search search_verb;

}  // namespace
}  // namespace fk
