// Scenarios as text: one YAML file per operator, or several operators in one file.
//
//   rms_norm:
//     - name: llama-3.1-8b/tp1/decode-32
//       models: [llama-3-8b, llama-3.1-8b]
//       tp: 1
//       count: 65
//       init: {hidden_size: 4096, eps: 1e-05, dtype: bf16}
//       workload: {sequences: [[32, 0]], dtype: bf16}
//       inputs:
//         x: {shape: [32, 4096], dtype: bf16, generator: "normal(0, 1)"}
//
// Only name is required: constructor arguments left out keep the operator's defaults. A sequence is [new tokens, tokens
// in the cache, how many such]. Shapes and dtypes follow from init and workload; if a file states them, they must
// agree.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/scenarios/scenario.h"

namespace fk {

// `path` names the text in errors, and golden files are relative to it. Throws Error "path:line:column: ...".
std::vector<Scenario> parse_scenarios(const std::string& text, const std::string& path);
std::vector<Scenario> read_scenarios(const std::string& path);  // a file, or all *.yaml of a folder

// Golden files inside the folder of `path` are named relative to it. Reading it back gives equal scenarios.
std::string scenarios_text(const std::vector<Scenario>& scenarios, const std::string& path);
void write_scenarios(const std::vector<Scenario>& scenarios, const std::string& path);

std::string generator_text(const Generator& generator);  // "normal(0, 1)", "positions"
std::optional<Generator> generator_from_text(std::string_view text);

}  // namespace fk
