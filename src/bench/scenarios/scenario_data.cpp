#include "bench/scenarios/scenario_data.h"

#include <algorithm>

#include "core/check.h"
#include "core/error.h"
#include "models/safetensors.h"

namespace fk {
namespace {

std::unique_ptr<BatchMetadata> batch_of(const Scenario& scenario, uint64_t seed) {
  if (scenario.block_table.empty()) return std::make_unique<BatchMetadata>(scenario.workload, seed);
  Tensor table = read_golden(scenario.block_table);
  const View& v = table.view();
  if (v.rank() != 2 || v.dtype() != DType::kI32 || v.size(0) != scenario.workload.num_sequences() ||
      v.size(1) < blocks_per_sequence(scenario.workload))
    throw Error("The block table '{}' of {} is {}, but the workload needs i32[{}, {}] at least.", scenario.block_table,
                scenario.name, v.str(), scenario.workload.num_sequences(), blocks_per_sequence(scenario.workload));
  std::vector<std::vector<int32_t>> tables;
  int64_t blocks = cache_blocks(scenario.workload);
  for (int64_t i = 0; i < v.size(0); ++i) {
    const int32_t* row = v.ptr<int32_t>() + i * v.size(1);
    tables.emplace_back(row, row + v.size(1));
    for (int32_t block : tables.back())
      if (block < 0 || block >= blocks)
        throw Error("The block table '{}' of {} names block {}, but the KV cache has {}; raise the workload's blocks.",
                    scenario.block_table, scenario.name, block, blocks);
  }
  return std::make_unique<BatchMetadata>(scenario.workload, tables);
}

}  // namespace

Tensor read_golden(const std::string& reference) {
  size_t hash = reference.rfind('#');
  if (hash == std::string::npos) throw Error("'{}' is not of the form file#tensor.", reference);
  SafetensorsFile file = SafetensorsFile::open(reference.substr(0, hash));
  auto entry = file.entries().find(reference.substr(hash + 1));
  if (entry == file.entries().end())
    throw Error("'{}' has no tensor '{}'; record it again with capture-golden.", file.path(),
                reference.substr(hash + 1));
  Tensor copy(entry->second.spec);
  const View& from = file.view(entry->second);
  std::copy_n(static_cast<const std::byte*>(from.data()), from.size_bytes(),
              static_cast<std::byte*>(copy.view().data()));
  return copy;
}

View make_strided(const TensorSpec& spec, const std::vector<int64_t>& strides, std::vector<Tensor>& storage) {
  const Shape& shape = spec.shape;
  auto rank = static_cast<size_t>(shape.rank());
  int64_t row = rank == 0 ? 1 : shape.numel() / std::max<int64_t>(1, shape[0]);
  bool rows_only = strides.size() == rank && rank >= 2 && rank <= 3 && strides[0] >= row && strides[rank - 1] == 1 &&
                   (rank < 3 || strides[1] == shape[2]);
  if (!rows_only)
    throw Error("Strides of {} must be one per dimension, dense inside a row and at least {} from row to row.",
                shape.str(), row);
  storage.emplace_back(Shape{shape[0], strides[0]}, spec.dtype);
  View rows = storage.back().view().narrow(1, 0, row);
  return rank == 3 ? rows.split_last(shape[1], shape[2]) : rows;
}

ScenarioData make_scenario_data(const Node& root, const Scenario& scenario, uint64_t seed) {
  ScenarioData result;
  Inputs inputs = scenario_inputs(scenario);
  result.data = make_call_data(root, inputs, scenario.workload, batch_of(scenario, seed), seed);
  for (size_t i = 0; i < inputs.size(); ++i) {
    result.given.push_back(inputs[i] ? OptView(result.data.given[i]->view()) : std::nullopt);
    const ArgumentOverride* o = scenario.override_of(scenario.info().args[i].name);
    if (!inputs[i] || o == nullptr) continue;
    if (!o->golden.empty()) {
      Tensor golden = read_golden(o->golden);
      if (!(golden.view().spec() == inputs[i]->spec))
        throw Error("'{}' is {}, but argument '{}' of {} is {}{}.", o->golden, golden.view().str(), o->name,
                    scenario.name, dtype_name(inputs[i]->spec.dtype), inputs[i]->spec.shape.str());
      copy_elements(golden, *result.data.given[i]);
    }
    if (!o->strides.empty()) {
      View strided = make_strided(inputs[i]->spec, o->strides, result.strided);
      copy_elements(*result.data.given[i], strided);
      result.given.back() = strided;
    }
  }
  for (size_t i = 0; i + 1 < result.data.kv_cache.size(); i += 2)
    result.kv_layers.push_back({result.data.kv_cache[i], result.data.kv_cache[i + 1]});
  return result;
}

void run_scenario_once(const Scenario& scenario, uint64_t seed, ThreadPool& pool, std::vector<Tensor>& outputs) {
  std::unique_ptr<Node> root = scenario.info().build(scenario.init, {});
  ScenarioData data = make_scenario_data(*root, scenario, seed);
  std::vector<ParamSpec> params = collect_params(*root);
  root->bind([&](const std::string& name) -> View {
    for (size_t i = 0; i < params.size(); ++i)
      if (params[i].name == name) return data.data.params[i];
    FK_CHECK(false, "an operator asks for a weight it did not list");
  });
  std::vector<OptView> args = data.given;
  OutputSpecs specs = root->outputs(args);
  outputs.clear();
  for (size_t i = 0; args.size() < scenario.info().args.size(); ++i) {
    if (specs.specs[i]) outputs.emplace_back(*specs.specs[i]);
    args.push_back(specs.specs[i] ? OptView(outputs.back().view()) : std::nullopt);
  }
  Arena arena;
  Context ctx{pool, arena, &data.data.batch->attention(), data.kv_layers};
  root->call(ctx, args);
}

}  // namespace fk
