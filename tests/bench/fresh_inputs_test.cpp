// Timed calls have a scenario's strides and real values, but no two of them have the same data.
#include "bench/kernels/fresh_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "bench/scenarios/scenario_data.h"
#include "bench/scenarios/scenario_file.h"
#include "models/safetensors_writer.h"
#include "sandbox/call_memory.h"
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
  int real = 0;
  Tensor last({64}, DType::kI64);
  for (int call = 0; call < 100; ++call) {
    inputs.next(0);
    const View& now = *inputs.current(0).given[0];
    EXPECT_NE(std::memcmp(last.view().data(), now.data(), now.size_bytes()), 0);
    copy_elements(now, last);
    if (inputs.kind(0) != "recorded") continue;
    ++real;
    for (int64_t i = 0; i < 64; ++i) EXPECT_LE(std::abs(now.ptr<int64_t>()[i] - 1001), 1);
  }
  EXPECT_NEAR(real, 50, 25) << "half the calls have the values of the run";
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
  const int second = 1;
  memory.fill(
      std::span(&second, 1), 0, [&](int) -> const CallData& { return data; }, 0xFF, 0);
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

double mean_square(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += double{x[i]} * x[i];
  return sum / static_cast<double>(n);
}

constexpr int64_t kWidth = 2048;
Workload tokens(int64_t n) {
  Workload w = Workload::tokens(n);
  w.dtype = DType::kF32;
  return w;
}
std::unique_ptr<Node> norm() {
  const OperatorInfo& op = Registry::instance().at("rms_norm");
  Fields init = op.cases().front().init;
  for (Field& f : init)
    if (f.name == "hidden_size") f.value = kWidth;
  return op.build(init, {});
}

// Timed calls use the input families of judged calls; at most half of them have the contract's own distribution.
TEST(FreshInputs, AreOfManyKinds) {
  std::unique_ptr<Node> root = norm();
  FreshInputs inputs(*root, contract_inputs(), tokens(4), 7);
  std::map<std::string_view, int> kinds;
  for (int call = 0; call < 600; ++call) {
    inputs.next(call % 3);
    ++kinds[inputs.kind(call % 3)];
  }
  EXPECT_NEAR(kinds["standard"], 350, 80);
  for (const char* kind : {"shifted +5", "ties", "clustered maxima", "mass in the tail", "exact integers"})
    EXPECT_NEAR(kinds[kind], 50, 30) << kind;
  EXPECT_FALSE(kinds.contains("zeros") || kinds.contains("sparse")) << "who skips zeros would look faster";
}

// The mean square of a row is not known in advance, and a part of the row does not reveal it.
TEST(FreshInputs, NoMeanSquareIsKnown) {
  std::unique_ptr<Node> root = norm();
  FreshInputs inputs(*root, contract_inputs(), tokens(4), 8);
  std::map<int, int> found;  // count by power of two
  int others_by_its_quarter = 0, others_by_row_before = 0, rows = 0;
  for (int call = 0; call < 200; ++call) {
    inputs.next(0);
    const auto* x = inputs.current(0).given[0]->ptr<float>();
    for (int64_t t = 0; t < 4; ++t, ++rows) {
      double all = mean_square(x + t * kWidth, kWidth);
      ++found[static_cast<int>(std::lround(std::log2(all)))];
      others_by_its_quarter += std::abs(mean_square(x + t * kWidth, kWidth / 4) / all - 1) > 0.2 ? 1 : 0;
      if (t > 0) others_by_row_before += std::abs(mean_square(x + (t - 1) * kWidth, kWidth) / all - 1) > 0.2 ? 1 : 0;
    }
  }
  EXPECT_GE(found.size(), 10u);
  for (const auto& [power, count] : found) EXPECT_LE(count, rows / 4) << "a mean square of 2^" << power;
  EXPECT_GE(others_by_its_quarter, rows / 10);
  EXPECT_GE(others_by_row_before, rows / 10);
}

// A few elements do not reveal the next ones: a candidate that remembers earlier calls by them is wrong.
TEST(FreshInputs, NoStretchIsSeenTwice) {
  std::unique_ptr<Node> root = norm();
  FreshInputs inputs(*root, contract_inputs(), tokens(4), 9);
  std::map<uint64_t, uint32_t> after;  // two mantissas, and the next one, independent of the factor
  int64_t known = 0, seen = 0;
  for (int call = 0; call < 100; ++call) {
    inputs.next(0);
    std::string_view kind = inputs.kind(0);
    if (kind == "ties" || kind == "exact integers" || kind == "clustered maxima") continue;  // they repeat numbers
    const auto* x = static_cast<const uint32_t*>(inputs.current(0).given[0]->view().data());
    auto mantissa = [&](int64_t i) { return uint64_t{x[i] & 0x7fffff}; };
    for (int64_t i = 0; i + 16 < 4 * kWidth; i += 16) {
      uint64_t key = 1;
      for (int64_t j = 0; j < 8; ++j) key = (key ^ mantissa(i + j)) * 0x9E3779B97F4A7C15u;
      auto [at, fresh] = after.try_emplace(key, static_cast<uint32_t>(mantissa(i + 8)));
      ++seen;
      known += !fresh && at->second == mantissa(i + 8) ? 1 : 0;
    }
  }
  EXPECT_LE(known, seen / 1000) << "of " << seen;
}

// A single token is a different one in every call.
TEST(FreshInputs, SmallTensorsChangeToo) {
  const OperatorInfo& op = Registry::instance().at("embedding");
  std::unique_ptr<Node> root = op.build(op.cases().front().init, {});
  Fields init = root->init();
  for (Field& f : init)
    if (f.name == "num_embeddings") f.value = 50'000;
  root = op.build(init, {});
  FreshInputs inputs(*root, contract_inputs(), tokens(1), 5);
  std::set<int64_t> ids;
  for (int call = 0; call < 50; ++call) {
    inputs.next(0);
    ASSERT_EQ(inputs.current(0).given[0]->view().numel(), 1);
    ids.insert(*inputs.current(0).given[0]->ptr<int64_t>());
  }
  EXPECT_GE(ids.size(), 40u);
}

// The order of tables changes from time to time, and tables given as arguments are those of the batch.
TEST(FreshInputs, TablesChangeWithTheirBatch) {
  const OperatorInfo& op = Registry::instance().at("flash_attn_decode");
  std::unique_ptr<Node> root = op.build(op.cases().front().init, {});
  FreshInputs inputs(*root, contract_inputs(), Workload::batch({{1, 500}, {1, 90}}), 5);
  std::set<std::vector<int32_t>> tables;
  for (int call = 0; call < 60; ++call) {
    inputs.next(0);
    const CallData& data = inputs.current(0);
    const View &given = *data.given[4], &batch = data.batch->all().block_table;
    ASSERT_EQ(std::memcmp(given.data(), batch.data(), given.size_bytes()), 0);
    tables.emplace(given.ptr<int32_t>(), given.ptr<int32_t>() + given.numel());
  }
  EXPECT_GE(tables.size(), 4u);
}

// The routing of tokens to experts is a different one in every call, of the same loads; its arguments agree.
TEST(FreshInputs, NoRoutingIsSeenTwice) {
  auto seen = [](const char* name, size_t argument, const auto& check) {
    const OperatorInfo& op = Registry::instance().at(name);
    Fields init = op.cases().front().init;
    for (Field& f : init) {
      if (f.name == "num_experts") f.value = 16;
      if (f.name == "top_k") f.value = 3;
    }
    std::unique_ptr<Node> root = op.build(init, {});
    FreshInputs inputs(*root, contract_inputs(), tokens(20), 5);
    std::set<std::vector<int32_t>> routings;
    for (int call = 0; call < 50; ++call) {
      inputs.next(0);
      const CallData& data = inputs.current(0);
      const View& ids = *data.given[argument];
      routings.emplace(ids.ptr<int32_t>(), ids.ptr<int32_t>() + ids.numel());
      check(data);
    }
    return routings.size();
  };
  std::set<std::vector<int64_t>> loads;
  EXPECT_EQ(seen("moe_align", 0,
                 [&](const CallData& data) {
                   std::vector<int64_t> of_expert(16);
                   const auto* ids = data.given[0]->ptr<int32_t>();
                   for (int t = 0; t < 20; ++t) {
                     EXPECT_EQ(std::set<int32_t>(ids + 3 * t, ids + 3 * t + 3).size(), 3u);
                     for (int j = 0; j < 3; ++j) ++of_expert.at(static_cast<size_t>(ids[3 * t + j]));
                   }
                   std::sort(of_expert.begin(), of_expert.end());
                   loads.insert(of_expert);
                 }),
            50u);
  EXPECT_EQ(loads.size(), 1u);
  EXPECT_EQ(seen("moe_grouped_gemm", 1,
                 [&](const CallData& data) {
                   const auto *sorted = data.given[1]->ptr<int32_t>(), *offsets = data.given[2]->ptr<int32_t>();
                   EXPECT_EQ(std::set<int32_t>(sorted, sorted + 60).size(), 60u);
                   EXPECT_EQ(offsets[16], 60);
                   for (int e = 0; e < 16; ++e)
                     EXPECT_TRUE(std::is_sorted(sorted + offsets[e], sorted + offsets[e + 1]));
                 }),
            50u);
}

// For large inputs, sets of other families would take longer than the calls.
TEST(FreshInputs, SlowLargeInputsHaveFewerKinds) {
  std::unique_ptr<Node> root = norm();
  std::set<std::string_view> ever;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    FreshInputs inputs(*root, contract_inputs(), tokens(2000), seed);
    std::set<std::string_view> kinds;
    for (int call = 0; call < 50; ++call) {
      inputs.next(0);
      kinds.insert(inputs.kind(0));
    }
    EXPECT_EQ(kinds.size(), 3u);
    ever.insert(kinds.begin(), kinds.end());
  }
  EXPECT_GT(ever.size(), 3u) << "other ones in every run";
}

TEST(Pieces, FactorsKeepEveryDigitAndEverySign) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    constexpr int64_t kN = 5000;
    Tensor set({kN}, dtype), out({kN}, dtype);
    fill(set, Generator::normal(), 3, "x", BatchMetadata(Workload::tokens(1), 1));
    store_element(static_cast<std::byte*>(set.view().data()), dtype, 0.0);
    Pieces p{.elements = kN,
             .element_bytes = static_cast<int64_t>(dtype_size(dtype)),
             .key = 0x0123456789abcdef,
             .set_elements = kN};
    put_together(out.view().data(), set.view().data(), p);
    Tensor plain = copy_of(out);
    store_float_format(p, dtype);
    for (int exponent : {-3, 0, 3}) {
      p.least_exponent = p.most_exponent = exponent;
      put_together(out.view().data(), set.view().data(), p);
      for (int64_t i = 0; i < kN; ++i) {
        double want = std::ldexp(get(plain, i), exponent);
        if (dtype == DType::kF16 && std::abs(want) < 0x1p-14) want = 0;  // no normal number
        ASSERT_EQ(get(out, i), want) << dtype_name(dtype) << " times 2^" << exponent;
      }
    }
  }
}

}  // namespace
}  // namespace fk
