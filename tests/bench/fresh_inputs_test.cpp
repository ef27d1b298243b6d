// Timed calls have a scenario's strides and real values, and still no two of them the same data.
#include "bench/kernels/fresh_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "bench/scenarios/scenario_data.h"
#include "bench/scenarios/scenario_file.h"
#include "candidate/runner/call_memory.h"
#include "models/safetensors_writer.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

TEST(FreshInputs, RealTokensComeInAnOrderNoRunHad) {
  TempDirectory folder;
  Tensor ids({64}, DType::kI64);
  for (int64_t i = 0; i < 64; ++i) ids.ptr<int64_t>()[i] = 1000 + i % 3;
  write_safetensors(folder.path() + "/g.safetensors", {{"ids", ids}});
  Scenario s = parse_scenarios(
                   "embedding:\n  - name: a\n    init: {num_embeddings: 9000, embedding_dim: 4}\n"
                   "    workload: {sequences: [[64, 0]]}\n"
                   "    inputs: {input_ids: {golden: \"g.safetensors#ids\"}}\n",
                   folder.path() + "/s.yaml")
                   .at(0);
  std::unique_ptr<Node> root = s.info().build(s.init, {});
  FreshInputs inputs(*root, ScenarioInputs(s), s.workload, 5);
  inputs.next(0);
  Tensor first = copy_of(*inputs.current(0).given[0]);
  inputs.next(0);
  const View& second = *inputs.current(0).given[0];
  EXPECT_NE(std::memcmp(first.view().data(), second.data(), second.size_bytes()), 0);
  for (int64_t i = 0; i < 64; ++i) EXPECT_LE(std::abs(second.ptr<int64_t>()[i] - 1001), 1);
}

TEST(FreshInputs, RowsLieApartInTheMemoryOfCalls) {
  Scenario s = parse_scenarios(
                   "rms_norm:\n  - name: a\n    init: {hidden_size: 16}\n    workload: {sequences: [[3, 0]]}\n"
                   "    inputs: {x: {strides: [20, 1]}}\n",
                   "s.yaml")
                   .at(0);
  std::unique_ptr<Node> root = s.info().build(s.init, {});
  FreshInputs inputs(*root, ScenarioInputs(s), s.workload, 5);
  CallMemory memory(*root, inputs.base(), 2, 1);
  inputs.next(1);
  const CallData& data = inputs.current(1);
  memory.reveal(1, data, 0);
  EXPECT_FALSE(memory.check_inputs(1, data));
  const SharedTensors& shared = memory.inputs();
  size_t at = shared.size() / 2;  // of the second slot
  View x = shared.view(at);
  EXPECT_EQ(x.stride(0), 20);
  for (int64_t t = 0; t < 3; ++t)
    for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(get(x, t, i), get(data.given[0]->view(), t, i));
  EXPECT_TRUE(shared.margins_intact(at, 0xFF));
  x.ptr<bf16>()[2 * 20 - 1] = bf16(1.0F);  // the last element of the gap before the last row
  EXPECT_FALSE(shared.margins_intact(at, 0xFF)) << "a write between rows is not seen";
  EXPECT_FALSE(memory.check_inputs(1, data));
  x.ptr<bf16>()[2 * 20] = bf16(77.0F);
  EXPECT_TRUE(memory.check_inputs(1, data));
}

}  // namespace
}  // namespace fk
