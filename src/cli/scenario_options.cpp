#include "cli/scenario_options.h"

namespace fk {

void add_selection_options(CLI::App& app, ScenarioSelection& selection) {
  app.add_option("--target", selection.target, "Only this operator")->type_name("OPERATOR");
  app.add_option("--model", selection.models, "Only models whose names begin so; several may be given")
      ->type_name("PREFIX");
  app.add_option("--category", selection.categories, "Only models of these categories: llm")->type_name("CATEGORY");
  app.add_option("--tp", selection.tp, "Only these numbers of tensor-parallel ranks")
      ->check(CLI::Range(int64_t{1}, int64_t{1024}))
      ->type_name("N");
  app.add_option("--level", selection.level, "Only operators of this level: 1 kernels, 2 blocks, 3 layers, 4 models")
      ->check(CLI::Range(1, 4));
  app.add_option("--filter", selection.filter,
                 "Only scenarios with these whole words in their names: decode-1 is not decode-128")
      ->type_name("WORDS");
}

}  // namespace fk
