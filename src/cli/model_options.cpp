#include "cli/model_options.h"

#include "cli/output.h"
#include "core/error.h"
#include "measure/timer.h"

namespace fk {

void add_model_options(FlagSet& flags, ModelOptions& options) {
  flags
      .option("--model", options.model,
              "Directory with a checkpoint, GGUF file, name of the catalog, or Hugging Face id in the local cache")
      .required()
      .type_name("MODEL");
  add_load_options(flags, options);
}

void add_load_options(FlagSet& flags, ModelOptions& options) {
  flags
      .option("--load-format", options.load_format, "auto: the checkpoint; dummy: made-up weights, the same every time")
      .one_of({"auto", "dummy"})
      .show_default();
  flags.option("--dtype", options.dtype, "Weights and activations; auto: as the checkpoint says, bf16 without one")
      .one_of({"auto", "bf16", "bfloat16", "f16", "float16", "half", "f32", "float32", "float"})
      .show_default();
  add_seed(flags, "--weight-seed", options.weight_seed, "Seed of dummy weights");
  flags
      .option("--quantization", options.quantization,
              "Of dummy weights: fp8, fp8_block, int8, int4, awq, gptq, nvfp4, or a format such as q8_0, q4_k")
      .type_name("METHOD");
}

LoadOptions load_options(const ModelOptions& options, const ModelSource& source, const CommonOptions& common) {
  LoadOptions load;
  load.format = options.load_format == "dummy" ? LoadFormat::kDummy : LoadFormat::kAuto;
  load.seed = options.weight_seed;
  load.quantization = options.quantization;
  load.device = common.device;
  if (options.dtype == "auto")
    load.dtype = !source.has_weights() ? DType::kBF16 : source.config.facts.dtype;
  else
    load.dtype = dtype_from_name(options.dtype).value();
  return load;
}

TimedModel load_timed(const ModelOptions& options, const ModelSource& source, const CommonOptions& common,
                      ThreadPool& pool, Communicator* communicator) {
  Progress progress(common);
  progress.show("loading " + source.name);
  Stopwatch watch;
  LoadOptions load = load_options(options, source, common);
  load.communicator = communicator;
  Model model = load_model(source, load, pool);
  return {std::move(model), static_cast<double>(watch.elapsed_ns()) * 1e-6};
}

}  // namespace fk
