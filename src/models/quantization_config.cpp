#include "models/quantization_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

#include "core/error.h"
#include "core/json.h"
#include "models/family.h"
#include "models/in_quotes.h"
#include "models/module_patterns.h"
#include "ops/formats/format_map.h"
#include "ops/formats/scaled_format.h"
#include "ops/formats/weight_format.h"

namespace fk {
namespace {

constexpr int64_t kMaxGroup = 1 << 20;

[[noreturn]] void refuse(const JsonFields& fields, std::string_view key, std::string_view found,
                         std::string_view known) {
  throw Error("{}: {} {} is not supported; {} is.", fields.what(), key, in_quotes(found), known);
}

// A value that must be one of those listed; absent is the first of them.
std::string one_of(const JsonFields& fields, std::string_view key, std::initializer_list<std::string_view> known) {
  std::string found = fields.string(key).value_or(std::string(*known.begin()));
  if (std::find(known.begin(), known.end(), found) == known.end())
    refuse(fields, key, found, fmt::format("{}", fmt::join(known, " or ")));
  return found;
}

void require_bits(const JsonFields& fields, std::string_view key, int64_t bits) {
  int64_t found = fields.integer(key, 1, 64).value_or(bits);
  if (found != bits) refuse(fields, key, std::to_string(found), std::to_string(bits));
}

// "_g128"; nothing where one scale is for a whole row.
std::string group_of(const JsonFields& fields) {
  int64_t group = fields.integer("group_size", -1, kMaxGroup).value_or(-1);
  if (group == 0) refuse(fields, "group_size", "0", "-1 or a positive number");
  return group < 0 ? "" : fmt::format("_g{}", group);
}

void refuse_if_set(const JsonFields& fields, std::string_view key) {
  const Json* found = fields.find(key);
  if (found != nullptr && !(found->is_boolean() && !found->get<bool>()) && !(found->is_structured() && found->empty()))
    throw Error("{}: {} is not supported.", fields.what(), key);
}

FormatOf all_but(std::string format, ModulePatterns ignored) {
  return [format = std::move(format), ignored = std::move(ignored)](const std::string& path) {
    return ignored.match(path) ? std::string() : format;
  };
}

FormatOf read_fp8(const JsonFields& fields) {
  one_of(fields, "activation_scheme", {"dynamic", "static"});
  one_of(fields, "fmt", {"e4m3", "float8_e4m3fn"});
  std::string format = "fp8_tensor";
  if (const Json* block = fields.find("weight_block_size")) {
    if (*block != Json::array({128, 128})) refuse(fields, "weight_block_size", block->dump(), "[128,128]");
    format = "fp8_block";
  }
  // vLLM knows two names for the list.
  return all_but(format,
                 ModulePatterns(fields, fields.has("ignored_layers") ? "ignored_layers" : "modules_to_not_convert"));
}

// `dynamic` of GPTQModel: modules by expressions, "-:" before those that are not quantised. Others, which may have
// settings of their own, are not supported.
ModulePatterns left_out_of_gptq(const JsonFields& fields) {
  constexpr std::string_view kLeftOut = "-:";
  Json expressions = Json::array();
  if (const Json* dynamic = fields.find("dynamic"); dynamic != nullptr && *dynamic != false) {
    if (!dynamic->is_object()) throw Error("{}: dynamic must be an object.", fields.what());
    for (const auto& [key, settings] : dynamic->items()) {
      if (!key.starts_with(kLeftOut))
        throw Error("{}: dynamic with {} is not supported; expressions for modules that are not quantized, {}..., are.",
                    fields.what(), in_quotes(key), kLeftOut);
      expressions.push_back("re:" + key.substr(kLeftOut.size()));
    }
  }
  const Json list{{"dynamic", expressions}};
  return ModulePatterns(JsonFields(list, fields.what()), "dynamic");
}

FormatOf read_gptq(const JsonFields& fields) {
  require_bits(fields, "bits", 4);
  std::string layout = one_of(fields, "checkpoint_format", {"gptq", "gptq_v2"});
  one_of(fields, "pack_dtype", {"int32"});
  refuse_if_set(fields, "modules_in_block_to_quantize");
  bool head = fields.boolean("lm_head").value_or(false);
  std::string format = "int4_" + layout + group_of(fields);
  return [=, ignored = left_out_of_gptq(fields)](const std::string& path) {
    return (path == "lm_head" && !head) || ignored.match(path) ? std::string() : format;
  };
}

FormatOf read_awq(const JsonFields& fields) {
  require_bits(fields, fields.has("bits") ? "bits" : "w_bit", 4);
  std::string version = fields.string("version").value_or("gemm");
  std::transform(version.begin(), version.end(), version.begin(), [](unsigned char c) { return std::tolower(c); });
  if (version != "gemm") refuse(fields, "version", version, "gemm");
  ModulePatterns ignored(fields, "modules_to_not_convert");
  std::string format = "int4_awq" + group_of(fields);
  return [=](const std::string& path) {
    return path == "lm_head" || ignored.match(path) ? std::string() : format;  // AWQ never quantises the head
  };
}

// One of config_groups: the weights' arguments.
std::string compressed_format(const JsonFields& group, const std::string& container) {
  std::optional<JsonFields> weights = group.object("weights");
  if (!weights) throw Error("{} has no weights.", group.what());
  if (group.has("output_activations")) throw Error("{}: output_activations are not supported.", group.what());
  std::string type = one_of(*weights, "type", {"int", "float"}), strategy = weights->string("strategy").value_or("");
  int64_t bits = weights->integer("num_bits", 1, 64).value_or(8);
  bool symmetric = weights->boolean("symmetric").value_or(true);
  if (strategy.empty()) strategy = weights->has("group_size") ? "group" : "tensor";
  std::string order = weights->find("actorder") == nullptr ? "" : weights->find("actorder")->dump();
  if (!order.empty() && order != "false" && order != "\"weight\"" && order != "\"static\"")
    throw Error("{}: actorder {} is not supported; weight and static are.", weights->what(), order);
  std::string what = fmt::format("{} with {}{} bits in {}", strategy, type, bits, container);
  if (container == "pack-quantized" && type == "int" && bits == 4 && (strategy == "group" || strategy == "channel"))
    return (symmetric ? "int4_packed" : "int4_packed_asym") + (strategy == "group" ? group_of(*weights) : "");
  if ((container == "int-quantized" || container == "naive-quantized") && type == "int" && bits == 8 && symmetric &&
      strategy == "channel")
    return "int8_channel";
  if ((container == "float-quantized" || container == "naive-quantized") && type == "float" && bits == 8 && symmetric) {
    if (strategy == "tensor") return "fp8_tensor";
    if (strategy == "channel") return "fp8_channel";
    const Json* block = weights->find("block_structure");
    if (strategy == "block" && (block == nullptr || *block == Json::array({128, 128}))) return "fp8_block_scale";
  }
  if (container == "nvfp4-pack-quantized" && type == "float" && bits == 4 && symmetric && strategy == "tensor_group" &&
      weights->integer("group_size", 1, kMaxGroup).value_or(16) == 16)
    return "nvfp4";
  throw Error(
      "{}: strategy {}{} is not supported; 4-bit integers in groups or channels, 8-bit symmetric integers in channels, "
      "FP8 in tensors, channels or 128x128 blocks, and NVFP4 are.",
      weights->what(), what, symmetric ? "" : " (asymmetric)");
}

FormatOf read_compressed_tensors(const JsonFields& fields) {
  struct Group {
    std::string format;
    ModulePatterns targets;
  };
  std::string status = fields.string("quantization_status").value_or("compressed");
  if (status != "compressed") refuse(fields, "quantization_status", status, "compressed");
  for (std::string_view key : {"sparsity_config", "transform_config"})
    if (std::optional<JsonFields> other = fields.object(key);
        other && !other->empty() && other->string("format").value_or("") != "dense")
      throw Error("{}: {} is not supported.", fields.what(), key);
  std::optional<JsonFields> groups = fields.object("config_groups");
  if (!groups || groups->empty()) throw Error("{} has no config_groups.", fields.what());
  std::string container = fields.string("format").value_or("pack-quantized");
  std::vector<Group> all;
  for (const auto& [name, value] : fields.find("config_groups")->items()) {
    std::optional<JsonFields> group = groups->object(name);
    if (!group) throw Error("{}: config group {} is empty.", fields.what(), in_quotes(name));
    all.push_back(
        {compressed_format(*group, group->string("format").value_or(container)), ModulePatterns(*group, "targets")});
  }
  ModulePatterns ignored(fields, "ignore");
  return [all = std::move(all), ignored = std::move(ignored)](const std::string& path) -> std::string {
    if (ignored.match(path)) return "";
    for (const Group& group : all)
      if (group.targets.match(path)) return group.format;
    for (const Group& group : all)
      if (group.targets.contains("Linear")) return group.format;
    return "";
  };
}

using Reader = FormatOf (*)(const JsonFields&);
const std::map<std::string, Reader, std::less<>>& readers() {
  static const std::map<std::string, Reader, std::less<>> all = {
      {"awq", read_awq}, {"compressed-tensors", read_compressed_tensors}, {"fp8", read_fp8}, {"gptq", read_gptq}};
  return all;
}

// Stacked products have one parameter for each matrix, so that the checkpoint must have each of them by itself.
bool multiplies_quantised(const Family& family) {
  auto has = [&](std::string_view module) {
    return std::any_of(family.packed.begin(), family.packed.end(),
                       [&](const PackedModule& p) { return p.module == module; });
  };
  bool experts = std::any_of(family.packed.begin(), family.packed.end(),
                             [](const PackedModule& p) { return p.module.find("experts.") != std::string_view::npos; });
  return !experts && has("qkv_proj") && has("gate_up_proj");
}

// The formats that checkpoints of a method most often have.
struct Method {
  std::string_view name, format;
};
constexpr Method kMethods[] = {{"fp8", "fp8_tensor"},     {"int4", "int4_packed_g128"}, {"int8", "int8_channel"},
                               {"awq", "int4_awq_g128"},  {"gptq", "int4_gptq_g128"},   {"nvfp4", "nvfp4"},
                               {"fp8_block", "fp8_block"}};

}  // namespace

std::vector<std::string_view> quantization_names() {
  std::vector<std::string_view> names;
  for (const Method& method : kMethods) names.push_back(method.name);
  return names;
}

std::string quantization_of_name(std::string_view name, const Family& family) {
  std::string format(name);
  for (const Method& method : kMethods)
    if (method.name == name) format = method.format;
  if (!multiplies_quantised(family))
    throw Error(
        "--quantization is not supported for {}: only for dense models whose checkpoints store each projection by "
        "itself. A quantized checkpoint of it is dequantized while it is loaded.",
        family.architecture);
  if (find_weight_format(format) != nullptr) return format;
  if (find_scaled_format(format) == nullptr) {
    std::vector<std::string_view> blocks;
    for (const WeightFormat* block : weight_formats()) blocks.push_back(block->name);
    throw UsageError("--quantization {} is not known; there are {}, the formats {} of GGUF files, and those of {}.",
                     in_quotes(name), fmt::join(quantization_names(), ", "), fmt::join(blocks, ", "),
                     fmt::join(scaled_format_kinds(), ", "));
  }
  return format + ";embed_tokens=none;lm_head=none";
}

FormatOf read_stored_formats(const JsonFields& config) {
  std::optional<JsonFields> fields = config.object("quantization_config");
  if (!fields) return {};
  auto reader = readers().find(fields->string("quant_method").value_or(""));
  return reader == readers().end() ? FormatOf() : reader->second(*fields);
}

std::string read_quantization(const JsonFields& config, const Family& family, int64_t layers) {
  std::optional<JsonFields> fields = config.object("quantization_config");
  if (!fields) return "";
  std::vector<std::string_view> known;
  for (const auto& [name, reader] : readers()) known.push_back(name);
  std::string method = fields->string("quant_method").value_or("");
  auto reader = readers().find(method);
  if (reader == readers().end())
    throw Error("{} has quant_method {}; known are {}.", fields->what(), in_quotes(method), fmt::join(known, ", "));
  FormatOf format_of = reader->second(*fields);
  if (!multiplies_quantised(family)) return "";
  // Without a list fp8 leaves the head as it is, as in transformers and vLLM; a head that has codes is dequantised.
  const bool head = method != "fp8" || fields->has("ignored_layers") || fields->has("modules_to_not_convert");
  std::vector<MatrixFormat> matrices{{"embed_tokens", -1, ""}, {"lm_head", -1, head ? format_of("lm_head") : ""}};
  for (int64_t i = 0; i < layers; ++i)
    for (std::string_view block : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                   "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
      matrices.push_back(
          {std::string(block.substr(block.find('.') + 1)), i, format_of(fmt::format("model.layers.{}.{}", i, block))});
  return format_map(matrices);
}

}  // namespace fk
