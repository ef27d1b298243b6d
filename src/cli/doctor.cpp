// doctor: what this machine is and has, and what this build of fastkernels lacks.
#include "cli/table.h"
#include "cli/verb.h"
#include "core/cpu_features.h"

namespace fk {
namespace {

class Doctor final : public Verb {
 public:
  Doctor()
      : Verb("doctor", "Show what this machine is, what it can do and what this build lacks",
             {"fastkernels doctor", "fastkernels doctor --quick --json"}) {}

  void add_flags(CLI::App& app) override { app.add_flag("--quick", quick_, "Do not measure, only look"); }

  void run(const CommonOptions& common) override {
    Table table({{"item", "item"}, {"value", "value"}});
    for (const std::string& name : cpu_feature_names()) table.add_row({"instructions", name});
    table.print(common);
  }

 private:
  bool quick_ = false;
};

Doctor doctor;

}  // namespace
}  // namespace fk
