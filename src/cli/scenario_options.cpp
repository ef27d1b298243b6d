#include "cli/scenario_options.h"

#include <fmt/ranges.h>

#include "models/family.h"

namespace fk {

void add_selection_options(FlagSet& flags, ScenarioSelection& selection) {
  flags.option("--target", selection.target, "Only this operator").type_name("OPERATOR");
  flags.option("--model", selection.models, "Only models whose names begin with this; several may be given")
      .type_name("PREFIX");
  flags
      .option("--category", selection.categories,
              fmt::format("Only models of these categories: {}", fmt::join(known_categories(), ", ")))
      .type_name("CATEGORY");
  flags.option("--tp", selection.tp, "Only these numbers of tensor-parallel ranks, 1 to 1024")
      .range(1, 1024)
      .type_name("N");
  flags.option("--level", selection.level, "Only operators of this level: 1 kernels, 2 blocks, 3 layers, 4 models")
      .range(1, 4);
  flags
      .option("--filter", selection.filter,
              "Only scenarios with these whole words in their names: decode-1 is not decode-128; '=NAME' takes the "
              "one of exactly this name")
      .type_name("WORDS");
}

}  // namespace fk
