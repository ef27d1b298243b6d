// generate-inputs: writes the scenarios of the catalog's models, one file per operator.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "bench/scenarios/generate.h"
#include "bench/scenarios/scenario_file.h"
#include "cli/output.h"
#include "cli/scenario_options.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "core/error.h"

namespace fk {
namespace {

class GenerateInputs final : public Verb {
 public:
  GenerateInputs()
      : Verb("generate-inputs", "Write the scenarios of the models, one file per operator",
             {"fastkernels generate-inputs", "fastkernels generate-inputs --target rms_norm --model llama-3.1 --tp 1 2",
              "fastkernels generate-inputs --level 2 --filter decode-32 --out /tmp/scenarios --json"}) {}

  void add_flags(FlagSet& flags) override {
    add_selection_options(flags, selection_);
    flags.option("--out", out_, "Folder the files are written to").show_default().type_name("DIR");
  }

  void run(const CommonOptions& common) override {
    Progress progress(common);
    progress.show("deriving scenarios");
    GeneratedScenarios generated = generate_scenarios(selection_);
    if (generated.scenarios.empty()) {
      // Numbers of ranks that do not divide a model are named as the reason only if ranks were given.
      bool by_tp = !selection_.tp.empty() && !generated.left_out.empty();
      std::string why = !by_tp ? "" : fmt::format(" ({})", generated.left_out.front().reason);
      throw Error("No scenario is selected by these flags{}; leave one out, or see `fastkernels list`.", why);
    }
    std::error_code failed;
    std::filesystem::create_directories(out_, failed);
    if (failed) throw Error("The folder '{}' cannot be made ({}); name another with --out.", out_, failed.message());

    Table table({{"level", "LEVEL"}, {"operator", "OPERATOR"}, {"scenarios", "SCENARIOS"}, {"file", "FILE"}});
    auto begin = generated.scenarios.begin();
    while (begin != generated.scenarios.end()) {
      auto end = std::find_if(begin, generated.scenarios.end(), [&](const Scenario& s) { return s.op != begin->op; });
      std::string file = (std::filesystem::path(out_) / (begin->op + ".yaml")).string();
      table.add_row({begin->info().level, begin->op, end - begin, file});
      write_scenarios({begin, end}, file);
      begin = end;
    }
    report(table, generated, common);
  }

 private:
  static void report(const Table& table, const GeneratedScenarios& generated, const CommonOptions& common) {
    if (common.json) {
      Json json = {{"files", table.to_json()}, {"scenarios", generated.scenarios.size()}};
      json["left_out"] = Json::array();
      for (const LeftOut& l : generated.left_out) json["left_out"].push_back({{"what", l.what}, {"reason", l.reason}});
      return print_out(dump_json(json) + "\n");
    }
    table.print(common);
    if (common.csv) return;
    print_out(fmt::format("\n{} scenarios\n", generated.scenarios.size()));
    for (const LeftOut& l : generated.left_out) print_out(fmt::format("left out: {}: {}\n", l.what, l.reason));
  }

  ScenarioSelection selection_;
  std::string out_ = "scenarios";
};

GenerateInputs generate_inputs;

}  // namespace
}  // namespace fk
