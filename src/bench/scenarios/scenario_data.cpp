#include "bench/scenarios/scenario_data.h"

#include <algorithm>
#include <deque>

#include "core/check.h"
#include "core/error.h"
#include "models/safetensors.h"

namespace fk {
namespace {

// The blocks of each sequence, as the scenario recorded them.
std::vector<std::vector<int32_t>> read_tables(const Scenario& scenario) {
  if (scenario.block_table.empty()) return {};
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
        throw Error("The block table '{}' of {} names block {}, but there are {}; raise the workload's blocks.",
                    scenario.block_table, scenario.name, block, blocks);
  }
  return tables;
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

namespace {

int64_t elements_of_row(const Shape& shape) {
  return shape.rank() == 0 ? 1 : shape.numel() / std::max<int64_t>(1, shape[0]);
}

}  // namespace

bool has_gaps_between_rows_only(const Shape& shape, const std::vector<int64_t>& strides) {
  auto rank = static_cast<size_t>(shape.rank());
  return strides.size() == rank && rank >= 2 && rank <= 3 && strides[0] >= elements_of_row(shape) &&
         strides[rank - 1] == 1 && (rank < 3 || strides[1] == shape[2]);
}

int64_t row_gap_of(const Shape& shape, const std::vector<int64_t>& strides) {
  const int64_t row = elements_of_row(shape);
  if (!has_gaps_between_rows_only(shape, strides))
    throw Error("Strides of {} must be one per dimension, dense inside a row and at least {} from row to row.",
                shape.str(), row);
  return strides[0] - row;
}

ScenarioInputs::ScenarioInputs(const Scenario& scenario) : scenario_(scenario), tables_(read_tables(scenario)) {
  const OperatorInfo& info = scenario.info();
  Inputs inputs = scenario_inputs(scenario);
  row_gaps_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ArgumentOverride* o = scenario.override_of(info.args[i].name);
    if (!inputs[i] || o == nullptr) continue;
    const TensorSpec& spec = inputs[i]->spec;
    if (!o->strides.empty()) row_gaps_[i] = row_gap_of(spec.shape, o->strides);
    if (o->golden.empty()) continue;
    Tensor golden = read_golden(o->golden);
    if (!(golden.view().spec() == spec))
      throw Error("'{}' is {}, but argument '{}' of {} is {}{}.", o->golden, golden.view().str(), o->name,
                  scenario.name, dtype_name(spec.dtype), spec.shape.str());
    golden_.emplace(i, std::move(golden));
  }
}

SharedParams ScenarioInputs::params(const Node& root, uint64_t seed) const {
  if (!params_ || params_seed_ != seed) {
    params_ = InputMaker::params(root, seed);
    params_seed_ = seed;
  }
  return params_;
}

Inputs ScenarioInputs::specs(const Node& root, const Workload& workload) const {
  Scenario same = scenario_;
  same.workload = workload;
  same.init = root.init();
  return scenario_inputs(same);
}

CallData ScenarioInputs::make_recorded(const Node& root, const Workload& workload, uint64_t seed) const {
  FK_CHECK(workload == scenario_.workload, "recorded values belong to one workload");
  if (tables_.empty() && golden_.empty()) return make(root, workload, seed);
  auto batch = tables_.empty() ? std::make_shared<BatchMetadata>(workload, seed)
                               : std::make_shared<BatchMetadata>(workload, tables_, seed);
  CallData data = make_call_inputs(root, specs(root, workload), workload, std::move(batch), seed);
  data.row_gaps = row_gaps_;
  for (const auto& [i, values] : golden_) copy_elements(values, *data.given[i]);
  return data;
}

void run_scenario_once(const Scenario& scenario, uint64_t seed, ThreadPool& pool, std::vector<Tensor>& outputs) {
  std::unique_ptr<Node> root = scenario.info().build(scenario.init, {});
  CallData data = ScenarioInputs(scenario).make_recorded(*root, scenario.workload, seed);
  data.params = make_params(*root, seed);
  std::vector<ParamSpec> params = collect_params(*root);
  root->bind([&](const std::string& name) -> View {
    for (size_t i = 0; i < params.size(); ++i)
      if (params[i].name == name) return data.params[i];
    FK_CHECK(false, "an operator asks for a weight it did not list");
  });
  std::vector<OptView> args;
  std::deque<Tensor> apart;
  for (size_t i = 0; i < data.given.size(); ++i) {
    args.push_back(data.given[i] ? OptView(data.given[i]->view()) : std::nullopt);
    if (!data.given[i] || data.row_gap(i) == 0) continue;
    TensorSpec spec = data.given[i]->view().spec();
    auto bytes = static_cast<int64_t>(bytes_with_gaps(spec, data.row_gap(i)));
    args.back() = view_with_gaps(apart.emplace_back(Shape{bytes}, DType::kU8).view().data(), spec, data.row_gap(i));
    copy_elements(*data.given[i], *args.back());
  }
  OutputSpecs specs = root->outputs(args);
  outputs.clear();
  for (size_t i = 0; args.size() < scenario.info().args.size(); ++i) {
    if (specs.specs[i]) outputs.emplace_back(*specs.specs[i]);
    args.push_back(specs.specs[i] ? OptView(outputs.back().view()) : std::nullopt);
  }
  std::vector<View> states = state_views(data.states);
  Arena arena;
  Context ctx{pool, arena, &data.batch->attention(), states};
  root->call(ctx, args);
}

}  // namespace fk
