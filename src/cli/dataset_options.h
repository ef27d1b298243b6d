// The flags that describe a load, with vLLM's names.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "bench/e2e/dataset.h"
#include "cli/flags.h"
#include "models/tokenizer.h"

namespace fk {

// A file tokenizer.json, a folder that has one, or the name of a model that has one; nothing without a name.
std::optional<Tokenizer> load_tokenizer(const std::string& name);

// Prints a warning the first time: each load makes its requests anew.
std::function<void(const std::string&)> warn_once();

// --dataset-name, --dataset-path, --num-prompts and the lengths; --seed is a common flag. The flags --input-len and
// --output-len set those of the dataset that was chosen.
class DatasetFlags {
 public:
  void add(FlagSet& flags);
  // After parsing. Throws UsageError where flags contradict each other.
  DatasetOptions options(uint64_t seed) const;

  void set_default_prompts(int64_t count) { options_.num_prompts = count; }

 private:
  DatasetOptions options_;
  int64_t input_len_ = 0, output_len_ = 0;
};

}  // namespace fk
