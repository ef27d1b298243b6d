// The flags that describe a load, with vLLM's names.
#pragma once

#include "bench/e2e/dataset.h"
#include "cli/flags.h"

namespace fk {

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
