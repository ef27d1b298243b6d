// Generated kernels for attention on the CPU: which calls have one, how their work is divided, and that they are right
// in every case of the operators.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "compiler/codegen/cpu_attention.h"
#include "ops/algebra/pieces.h"
#include "tests/compiler/attention_call.h"

namespace fk {
namespace {

using algebra::Expr;
using conformance::Placement;

constexpr double kEveryCase = 1e18;

// The kernels of all cases that have one, or of those with a label, compiled as one source.
struct CpuAttentionCases {
  explicit CpuAttentionCases(DType dtype, std::string_view label = {}) : calls(dtype, kEveryCase, DeviceKind::kCpu) {
    std::vector<const FoundRegion*> all;
    for (const auto& c : calls.cases)
      if (c.found != nullptr && (label.empty() || c.which.label == label)) all.push_back(c.found.get());
    // Vectors are types in the source, so -O1 gives the same instructions but for their order, in less time.
    const CompiledRegions compiled = compile_regions(all, calls.flat, {}, DeviceKind::kCpu, {"-O1"});
    for (size_t i = 0; i < all.size(); ++i) kernels[all[i]] = compiled.kernels[i];
  }

  AttentionCalls calls;
  std::map<const FoundRegion*, std::shared_ptr<RegionKernel>> kernels;
};

void expect_right_on_cpu(DType dtype) {
  CpuAttentionCases cases(dtype);
  std::map<std::string_view, int> examined;
  for (const auto& c : cases.calls.cases) {
    SCOPED_TRACE(c.which.label);
    if (c.found == nullptr) {
      EXPECT_EQ(c.which.label, "one token") << "only heads of one element have no kernel";
      continue;
    }
    const conformance::Problem problem = conformance::make_problem(*c.info, c.which, c.dtype);
    const std::shared_ptr<RegionKernel> kernel = cases.kernels.at(c.found.get());
    for (const auto& [placement, threads] : {std::pair(Placement::kAligned, 1), std::pair(Placement::kStridedRows, 2)})
      examined[c.info->name] += cases.calls.examine(c, problem, kernel, placement, kCpu, threads) ? 1 : 0;
  }
  for (const char* op : kAttentionOperators) EXPECT_GT(examined[op], 0) << op;
}

TEST(CpuAttention, SlowIsRightInEveryCase) { expect_right_on_cpu(DType::kBF16); }
TEST(CpuAttention, SlowIsRightInF16) { expect_right_on_cpu(DType::kF16); }
TEST(CpuAttention, SlowIsRightInF32) { expect_right_on_cpu(DType::kF32); }

// Rows of a tile are multiplied together. One that does not see a value must not notice what it is.
TEST(CpuAttention, InfiniteValuesReachOnlyRowsThatSeeThem) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    constexpr std::string_view kLabel = "heads of 128, dense, window, cap";  // of prefill alone
    const CpuAttentionCases cases(dtype, kLabel);
    const auto which = std::find_if(cases.calls.cases.begin(), cases.calls.cases.end(),
                                    [&](const auto& c) { return c.which.label == kLabel; });
    ASSERT_NE(which, cases.calls.cases.end());
    constexpr int64_t kFirstSequence = 150, kWindow = 70;
    Workload workload = which->which.workload;
    workload.dtype = dtype;
    const std::unique_ptr<Node> oracle = which->info->build(which->which.init, {.oracle = true});
    CallData data = make_call_data(*oracle, workload, 1);
    std::vector<OptView> given;
    for (const auto& tensor : data.given) given.push_back(tensor ? OptView(tensor->view()) : std::nullopt);
    const TensorSpec spec = *oracle->outputs(given).specs[0];
    RegionKernel& kernel = *cases.kernels.at(which->found.get());
    const Tensor before = result_of(cases.calls, *which, kernel, given, spec);
    for (const double value : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
      for (const int64_t key : {0, 60, 149}) {
        SCOPED_TRACE(fmt::format("{}, {} as value {}", dtype_name(dtype), value, key));
        const View v = *given[2];
        const double kept = get(v, key, 0, 5);
        set(v, value, key, 0, 5);
        const Tensor after = result_of(cases.calls, *which, kernel, given, spec);
        set(v, kept, key, 0, 5);
        for (int64_t row = 0; row < spec.shape[0]; ++row) {
          const bool sees = row < kFirstSequence && key <= row && row < key + kWindow;
          for (int64_t h = 0; h < spec.shape[1]; ++h)
            for (int64_t d = 0; d < spec.shape[2]; ++d) {
              const double now = get(after.view(), row, h, d);
              if (sees && d == 5)
                ASSERT_FALSE(std::isfinite(now)) << row;
              else
                ASSERT_EQ(now, get(before.view(), row, h, d)) << row << " " << h << " " << d;
            }
        }
      }
  }
}

std::vector<CpuAttentionItem> items_of(const AttentionProgram& program, const std::vector<CpuSeenKeys>& seen,
                                       CpuAttentionWork* work = nullptr) {
  static std::vector<CpuAttentionItem> memory;
  memory.assign(static_cast<size_t>(most_cpu_attention_items(seen)), {});
  const CpuAttentionWork made = cpu_attention_work(program, seen, memory);
  if (work != nullptr) *work = made;
  return {made.items.begin(), made.items.end()};
}

TEST(CpuAttention, RowsThatSeeTheSameKeysAreATile) {
  AttentionProgram program;
  program.kv_heads = 2, program.group = 4, program.query_size = program.value_size = 64;
  std::vector<CpuSeenKeys> causal, apart;
  for (int64_t row = 0; row < 64; ++row) {
    causal.push_back({0, 100 + row, 3});
    apart.push_back({row * 49, row * 49 + 49, 0});
  }
  const std::vector<CpuAttentionItem> tiles = items_of(program, causal);
  ASSERT_EQ(tiles.size(), 8u) << "32 rows of 4 heads: 8 tokens";
  EXPECT_EQ(tiles[0].first_row, 56) << "those with the most keys first";
  EXPECT_EQ(tiles[0].last_key, 163);
  for (const CpuAttentionItem& item : items_of(program, apart))
    EXPECT_LE(item.last_key - item.first_key, 3 * 49) << "a tile reads few keys that a row does not see";
  causal[3].source = 4;
  EXPECT_EQ(items_of(program, causal).size(), 10u) << "keys of other sequences are elsewhere";
}

TEST(CpuAttention, KeysOfOneRowAreDivided) {
  AttentionProgram program;
  program.kv_heads = 1, program.group = 1, program.query_size = program.value_size = 64;
  CpuAttentionWork work;
  std::vector<CpuAttentionItem> items = items_of(program, {{10, 600, 0}, {5, 5, 1}, {0, 256, 2}}, &work);
  ASSERT_EQ(items.size(), 5u);
  EXPECT_EQ(work.kept, 3);
  ASSERT_EQ(work.joins.size(), 1u);
  EXPECT_EQ(work.joins[0].first_row, 0);
  EXPECT_EQ(work.joins[0].last_key, 3);
  int64_t keys = 0;
  for (const CpuAttentionItem& item : items)
    if (item.first_row == 0) keys += item.last_key - item.first_key;
  EXPECT_EQ(keys, 590);
  EXPECT_EQ(items[1].first_row, 1) << "a row that sees nothing is stored, too";
  EXPECT_EQ(items[1].kept, -1);
}

// attend_all() with a mask and a sink of any shape.
Expr attention_with(const Expr& visible, const std::optional<Expr>& sink,
                    const Expr& q = algebra::input("q", DType::kF32, {4, 2, 2, 1, 16})) {
  const Expr k = algebra::input("k", DType::kF32, {4, 2, 1, 8, 16}),
             v = algebra::input("v", DType::kF32, {4, 2, 1, 8, 16});
  const Expr scores = sum(q * k, 4) * 0.25;
  Expr top = largest(select(visible, scores, -INFINITY), 3);
  if (sink) top = max(top, *sink);
  const Expr weights = select(visible, exp(scores - top), 0);
  Expr total = sum(weights, 3);
  if (sink) total = total + exp(*sink - top);
  const Expr mixed = sum(select(visible, weights * v, 0), 3);
  return reshape(select(algebra::constant(0) < total, mixed / total, 0), {4, 4, 16});
}

TEST(CpuAttention, MasksOfHeadsAndSinksOfRowsAreRefused) {
  const Expr key = algebra::iota({1, 1, 1, 8, 1}, 3), row = algebra::iota({4, 1, 1, 1, 1}, 0);
  const Expr head = algebra::iota({1, 2, 1, 1, 1}, 1), in_group = algebra::iota({1, 1, 2, 1, 1}, 2);
  auto refusal = [](const Expr& visible, const std::optional<Expr>& sink = {}) {
    return lower_attention({{"y0", attention_with(visible, sink)}}).refusal;
  };
  EXPECT_EQ(refusal(key < row), "");
  EXPECT_EQ(refusal(key < head), "heads have masks of their own");
  EXPECT_EQ(refusal(key < row + in_group), "heads have masks of their own");
  auto sink = [](int64_t rows) { return algebra::input("s", DType::kF32, {rows, 2, 2, 1, 1}); };
  EXPECT_EQ(refusal(key < row, sink(1)), "");
  EXPECT_EQ(refusal(key < row, sink(4)), "rows have sinks of their own");
  // One that is repeated along its first dimensions, as the 0 of a softmax with one more term.
  for (const Expr& repeated : {algebra::constant(0), algebra::input("s", DType::kF32, {2, 2, 1, 1})})
    EXPECT_NE(refusal(key < row, repeated), "");
}

TEST(CpuAttention, QueriesOfEachKeyAreRefused) {
  const Expr visible = algebra::iota({1, 1, 1, 8, 1}, 3) < algebra::iota({4, 1, 1, 1, 1}, 0);
  auto refusal = [&](const Expr& q) { return lower_attention({{"y0", attention_with(visible, {}, q)}}).refusal; };
  EXPECT_EQ(refusal(algebra::input("q", DType::kF32, {4, 2, 2, 1, 16})), "");
  EXPECT_EQ(refusal(algebra::input("q", DType::kF32, {4, 2, 2, 8, 16})), "each key has queries of its own");
}

}  // namespace
}  // namespace fk
