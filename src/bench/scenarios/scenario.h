// Scenario: one call of one operator that is judged: its constructor arguments and its inputs.
//
// Where it comes from: derived from the models of the catalog (generate.h), recorded from a real run (capture.h), or
// written by hand in a file (scenario_file.h). All three give the same struct.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/fields.h"
#include "ops/registry.h"
#include "ops/workload.h"

namespace fk {

// Overrides the contract's input for one argument.
struct ArgumentOverride {
  std::string name;
  std::optional<Generator> generator = {};
  std::vector<int64_t> strides = {};  // in elements, one per dimension; empty: dense
  std::string golden = {};            // "file#tensor": real values; empty: generated ones

  friend bool operator==(const ArgumentOverride&, const ArgumentOverride&) = default;
};

struct Scenario {
  std::string op;
  std::string name;                      // "llama-3.1-8b/tp1/decode-32", unique within its operator
  std::vector<std::string> models = {};  // all that make this call
  int64_t tp = 1;                        // ranks of the model it is named after
  std::vector<int64_t> also_tp = {};     // other numbers of ranks that make this call
  Fields init = {};                      // complete: no field is left to its default
  Workload workload = {};
  int64_t count = 1;  // calls in the step, or in the run, it comes from
  std::vector<ArgumentOverride> overrides = {};
  std::string block_table =
      {};  // "file#tensor": real blocks of the sequences, i32 [S, n]; empty: scattered by the seed

  const OperatorInfo& info() const { return Registry::instance().at(op); }
  const ArgumentOverride* override_of(std::string_view argument) const;
};

bool same_fields(const Fields& a, const Fields& b);
bool operator==(const Scenario& a, const Scenario& b);

// The inputs of the call: the contract's inputs for this workload, with the scenario's generators.
Inputs scenario_inputs(const Scenario& scenario);

// Which scenarios a command selects. Empty lists and texts select everything.
struct ScenarioSelection {
  std::vector<std::string> models = {};      // prefixes of names: "llama-3.1" takes 8b and 70b
  std::vector<std::string> categories = {};  // of models: "llm"; those of no known model have none
  std::vector<int64_t> tp = {};
  int level = 0;  // 0: all
  std::string target = {};
  std::string filter = {};  // whole words of a name, see name_matches()
};

// Whether `filter` stands in `name` as whole words: "decode-1" in "tp1/decode-1/norm" but not in "tp1/decode-128".
// Words are made of letters and digits. An empty filter matches everything; one that begins with = matches only the
// exact name after it.
bool name_matches(std::string_view name, std::string_view filter);

bool selects(const ScenarioSelection& selection, const Scenario& scenario);

// Throws Error if the selection names an unknown operator or category.
void check_selection(const ScenarioSelection& selection);

}  // namespace fk
