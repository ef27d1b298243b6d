#include "cli/suite_peer.h"

#include "bench/ttft/ttft.h"
#include "cli/model_options.h"
#include "core/error.h"
#include "core/input_file.h"
#include "core/json.h"
#include "core/output_file.h"
#include "models/catalog.h"
#include "models/checkpoint_names.h"
#include "models/family.h"

namespace fk {

extern const std::string_view kTtftPeerScript;  // tools/peers/ttft_peer.py

namespace {

Json config_of(const ModelSource& source) {
  if (const CatalogEntry* entry = find_catalog(source.name))
    return parse_json(entry->config_json, "an entry of the catalog");
  return parse_json(read_file(source.directory + "/config.json", "config.json"), "config.json");
}

// The names that a checkpoint of the model has, from which dummy weights are made.
std::vector<std::string> tensor_names(const ModelConfig& config) {
  const std::unique_ptr<Node> root = build_model(config, {.oracle = true});
  std::vector<std::string> names;
  for (const ParamSpec& param : checkpoint_params(*root, config))
    if (param.part_names.empty())
      names.push_back(param.name);
    else
      names.insert(names.end(), param.part_names.begin(), param.part_names.end());
  return names;
}

}  // namespace

std::string peer_refusal(const SuiteConfig& config) {
  const ModelSource source = resolve_model(config.model);
  if (source.config.facts.task != Task::kCausalLM)
    return fmt::format("PyTorch is compared on language models, and {} is none", source.name);
  if (!source.gguf.empty()) return "PyTorch is not compared on GGUF files";
  if (!config.quantization.empty()) return "PyTorch is not compared on quantised dummy weights";
  return "";
}

WatchedProcess peer_process(const SuiteRow& row, const SuiteSetting& setting, const std::string& folder) {
  const SuiteConfig& config = *row.config;
  const ModelSource source = resolve_model(config.model);
  CommonOptions common = setting.common;
  common.device = setting.device_of(config);
  const LoadOptions load = load_options(
      {config.model, config.load_format, config.dtype, static_cast<uint64_t>(config.weight_seed), {}}, source, common);
  TtftOptions work;
  work.prompt_tokens = config.prompt_tokens;
  work.batch_size = config.batch_size;
  work.seed = common.seed;
  work.prompt_ids = config.prompt_ids;
  constexpr double kMostTokens = 0x1p22;
  if (static_cast<double>(config.iterations * config.batch_size) * static_cast<double>(config.prompt_tokens) >
      kMostTokens)
    throw Error("PyTorch gets at most {:.0f} tokens of prompts; lower iterations, prompt_tokens or batch_size.",
                kMostTokens);
  Json prompts = Json::array();
  for (int64_t i = 0; i < config.iterations; ++i)
    prompts.push_back(random_prompts(work, i, source.config.facts.vocab_size));
  const Json request = {{"architecture", source.config.architecture()},
                        {"config", config_of(source)},
                        {"directory", source.directory},
                        {"load_format", config.load_format},
                        {"dtype", dtype_name(load.dtype)},
                        {"device", device_name(common.device)},
                        {"threads", setting.threads_of(config)},
                        {"weight_seed", config.weight_seed},
                        {"norm_offset", source.config.family->norm_offset},
                        {"tensors", tensor_names(source.config)},
                        {"prompts", prompts},
                        {"prompt_tokens", config.prompt_tokens},
                        {"decode_tokens", config.decode_tokens},
                        {"warmups", config.warmups},
                        {"sequential", config.sequential},
                        {"compile", row.path == kPathTorchCompile},
                        {"compile_prefill", config.compile_prefill}};
  write_file(folder + "/ttft_peer.py", kTtftPeerScript);
  write_file(folder + "/request.json", dump_json(request, -1));
  return {.program = setting.python, .arguments = {folder + "/ttft_peer.py", folder + "/request.json"}};
}

}  // namespace fk
