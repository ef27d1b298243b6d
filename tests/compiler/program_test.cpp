// A whole model as expressions of its inputs, evaluated in f64, gives what its tree of oracles gives.
#include "compiler/program.h"

#include <gtest/gtest.h>

#include "tests/compiler/program_run.h"
#include "tests/compiler/random_exprs.h"
#include "tests/graph/tiny_models.h"

namespace fk {
namespace {

void expect_same_numbers(const CatalogEntry& entry, GraphPhase phase, bool open) {
  SCOPED_TRACE(entry.name + " " + std::string(phase_name(phase)));
  ProgramRun run(entry, phase, open);
  ModelRun& model = run.model();
  ModelRun::Result expected = model.run([&](Context& ctx, Args args) { model.root().call(ctx, args); });
  std::vector<algebra::Values> values = run.evaluate(run.program().exprs());
  const std::vector<ArgSpec>& args = model.root().info().args;
  const CallData& data = model.data();
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string& name = run.program().results[i].name;
    OptView found;
    for (size_t k = 0; k < data.state_specs.size(); ++k)
      if (data.state_specs[k].name == name) found = expected.states[k].view();
    for (size_t k = data.given.size(), o = 0; k < args.size(); ++k, ++o)
      if (args[k].name == name) found = expected.outputs[o].view();
    ASSERT_TRUE(found) << name;
    EXPECT_LT(distance(*values[i], *algebra::load_values(*found)), 1e-9) << name;
  }
}

TEST(Program, SlowOfDefinitionsEqualsTheTree) {
  for (const CatalogEntry* entry : one_of_each_family()) expect_same_numbers(*entry, phases_of(*entry).back(), true);
}

TEST(Program, OfCallsEqualsTheTree) { expect_same_numbers(*find_catalog("tiny-llama"), GraphPhase::kMixed, false); }

TEST(Program, SlowOfDefinitionsEqualsTheTreeForEveryTinyModel) {
  for (const CatalogEntry* entry : tiny_models())
    for (GraphPhase phase : phases_of(*entry)) expect_same_numbers(*entry, phase, true);
}

}  // namespace
}  // namespace fk
