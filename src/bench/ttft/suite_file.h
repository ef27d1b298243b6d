// The file of `ttft --suite`: configurations, each a model with the work that is timed and the paths that run it.
//
//   defaults: {load_format: dummy, prompt_tokens: 64}   # for all below
//   configs:
//     - {model: llama-3-8b, paths: [eager, compiled, hf], skip: {torch_compile: compiles for minutes}}
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

// How a model can be run, in the order in which a suite runs them.
inline constexpr const char *kPathEager = "eager", *kPathCompiled = "compiled", *kPathCandidate = "candidate",
                            *kPathHf = "hf", *kPathTorchCompile = "torch_compile";
const std::vector<std::string>& all_paths();

struct SuiteConfig {
  std::string name;  // its own, by default that of the model
  std::string model;
  std::string load_format = "auto", dtype = "auto", quantization = {};
  std::string device = {};  // empty: that of the command
  int64_t threads = 0;      // 0: likewise
  int64_t weight_seed = 0;
  int64_t prompt_tokens = 64, decode_tokens = 32, batch_size = 1, iterations = 3, warmups = 1;
  std::vector<int64_t> prompt_ids = {};  // the prompt itself; empty: random, another in every iteration
  std::optional<int64_t> search_budget;  // nothing: all kernels are measured
  std::vector<int64_t> sweep_budgets = {10, 100, 500};
  std::vector<std::string> paths = {kPathEager, kPathCompiled};
  std::map<std::string, std::string> skip = {};  // path, and why
  bool sequential = true;                        // time the prompt token by token, too
  bool generated_kernels = true;                 // false: plans make the calls of the tree
  bool warm_search = false;                      // use what earlier searches measured; false: every search is cold
  bool compile_prefill = true;                   // torch_compile: also the pass over the prompt
  double settle_seconds = 10;                    // to wait at most for a quiet machine before a row
  double limit_seconds = 1800;                   // of a row
};

// Throws Error with file, line and what to do. Names are distinct, paths are known, numbers are in range.
std::vector<SuiteConfig> parse_suite(std::string_view text, const std::string& path);
std::vector<SuiteConfig> read_suite(const std::string& path);

}  // namespace fk
