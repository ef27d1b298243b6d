// The flags of every verb that runs a model, and the model they select.
#pragma once

#include <string>

#include "cli/options.h"
#include "engine/model.h"

namespace fk {

struct ModelOptions {
  std::string model;
  std::string load_format = "auto";
  std::string dtype = "auto";
  uint64_t weight_seed = 0;
  std::string quantization = {};
};

void add_model_options(FlagSet& flags, ModelOptions& options);
// The same without --model, for verbs that take several models.
void add_load_options(FlagSet& flags, ModelOptions& options);

LoadOptions load_options(const ModelOptions& options, const ModelSource& source, const CommonOptions& common);

// A loaded model and how long it took.
struct TimedModel {
  Model model;
  double load_ms = 0;
};
// communicator: of the ranks that load it together; nullptr: this one loads all of it.
TimedModel load_timed(const ModelOptions& options, const ModelSource& source, const CommonOptions& common,
                      ThreadPool& pool, Communicator* communicator = nullptr);

}  // namespace fk
