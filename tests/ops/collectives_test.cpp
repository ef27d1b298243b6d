// Collective operators on real ranks (threads that share memory): every implementation of every one of them gives what
// plain loops over the ranks' inputs give, with gaps between rows too.
#include "ops/collectives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/error.h"
#include "core/memory.h"
#include "core/rng.h"
#include "ops/registry.h"
#include "tests/core/on_ranks.h"
#include "tests/models/error_text.h"

namespace fk {
namespace {

struct Collective {
  const char* op;
  Fields more = {};
  // What element (row, column) of rank `rank` must be, from x(rank, row, column).
  std::function<double(const std::function<double(int64_t, int64_t, int64_t)>& x, int64_t ranks, int64_t rank,
                       int64_t row, int64_t column)>
      expected;
};

constexpr int64_t kRows = 12, kColumns = 24;  // divisible by 1, 2, 3 and 4

double value(int64_t rank, int64_t row, int64_t column) {
  Stream stream(static_cast<uint64_t>(rank), "collective");
  return std::round(16 * stream.normal(static_cast<uint64_t>(row * kColumns + column))) / 4;
}

std::vector<Collective> collectives() {
  auto sum = [](const auto& x, int64_t ranks, int64_t row, int64_t column) {
    double total = 0;
    for (int64_t r = 0; r < ranks; ++r) total += x(r, row, column);
    return total;
  };
  return {
      {"allreduce", {}, [=](const auto& x, int64_t n, int64_t, int64_t i, int64_t j) { return sum(x, n, i, j); }},
      {"all_gather",
       {},
       [](const auto& x, int64_t, int64_t, int64_t i, int64_t j) { return x(j / kColumns, i, j % kColumns); }},
      {"all_gather",
       {{"output_size", int64_t{23}}},
       [](const auto& x, int64_t, int64_t, int64_t i, int64_t j) { return x(j / kColumns, i, j % kColumns); }},
      {"all_gather",
       {{"dim", int64_t{0}}},
       [](const auto& x, int64_t, int64_t, int64_t i, int64_t j) { return x(i / kRows, i % kRows, j); }},
      {"reduce_scatter",
       {},
       [=](const auto& x, int64_t n, int64_t rank, int64_t i, int64_t j) {
         return sum(x, n, i, rank * (kColumns / n) + j);
       }},
      {"reduce_scatter",
       {{"dim", int64_t{0}}},
       [=](const auto& x, int64_t n, int64_t rank, int64_t i, int64_t j) {
         return sum(x, n, rank * (kRows / n) + i, j);
       }},
      {"all_to_all",
       {},
       [](const auto& x, int64_t n, int64_t rank, int64_t i, int64_t j) {
         int64_t block = kRows / n;
         return x(i / block, rank * block + i % block, j);
       }},
  };
}

// A view whose rows are `gap` elements apart.
struct Gapped {
  Gapped(const Shape& shape, DType dtype, int64_t gap)
      : memory({shape[0], shape[1] + gap}, dtype), view(memory.view().narrow(1, 0, shape[1])) {}
  Tensor memory;
  View view;
};

void run_rank(const Collective& c, std::string_view implementation, DType dtype, Communicator& ranks) {
  BuildOptions options;
  options.only_operator = c.op;
  options.only_implementation = implementation;
  Fields init = {{"world_size", ranks.size()}, {"rank", ranks.rank()}};
  init.insert(init.end(), c.more.begin(), c.more.end());
  std::unique_ptr<Node> node = Registry::instance().at(c.op).build(init, options);
  ThreadPool pool(1);
  Arena arena;
  Context ctx{.pool = pool, .arena = arena, .communicator = &ranks};
  for (int64_t gap : {0, 5}) {
    Gapped x({kRows, kColumns}, dtype, gap);
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t j = 0; j < kColumns; ++j) set(x.view, value(ranks.rank(), i, j), i, j);
    const OptView given[] = {x.view};
    TensorSpec spec = *node->outputs(given).specs[0];
    Gapped out(spec.shape, dtype, gap);
    const OptView args[] = {x.view, out.view};
    node->call(ctx, args);
    for (int64_t i = 0; i < spec.shape[0]; ++i)
      for (int64_t j = 0; j < spec.shape[1]; ++j) {
        double expected = c.expected(value, ranks.size(), ranks.rank(), i, j);
        ASSERT_NEAR(get(out.view, i, j), expected, dtype_epsilon(dtype) * (1 + std::abs(expected)))
            << c.op << " by " << implementation << ", rank " << ranks.rank() << " of " << ranks.size() << " at " << i
            << ", " << j;
      }
  }
}

TEST(Collectives, EveryImplementationOnRealRanks) {
  for (const Collective& c : collectives())
    for (const ImplementationInfo& implementation : Registry::instance().at(c.op).implementations) {
      if (implementation.device != DeviceKind::kCpu) continue;
      for (int64_t size : {1, 2, 3, 4})
        for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64})
          on_ranks(size, [&](Communicator& ranks) { run_rank(c, implementation.name, dtype, ranks); });
    }
}

TEST(Collectives, EveryCollectiveOperatorIsTestedHere) {
  for (const OperatorInfo* op : Registry::instance().operators()) {
    if (!op->collective) continue;
    std::vector<Collective> all = collectives();
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Collective& c) { return op->name == c.op; })) << op->name;
    EXPECT_NE(find_field(op->default_init(), "world_size"), nullptr) << op->name;
  }
}

TEST(Collectives, ARunWithFewerRanksIsRefusedByASentence) {
  std::unique_ptr<Node> node = Registry::instance().at("allreduce").build({{"world_size", int64_t{2}}}, {});
  ThreadPool pool(1);
  Arena arena;
  Context ctx{.pool = pool, .arena = arena};
  Tensor x({2, 3}, DType::kF32), out({2, 3}, DType::kF32);
  const OptView args[] = {x.view(), out.view()};
  expect_sentence(error_of([&] { node->call(ctx, args); }), {"2 ranks", "--tp 2"});
}

TEST(Collectives, ImpossibleBlocksAreRefused) {
  auto outputs = [](const char* op, Fields init) {
    Tensor x({5, 7}, DType::kF32);
    const OptView given[] = {x.view()};
    Registry::instance().at(op).build(init, {})->outputs(given);
  };
  expect_sentence(error_of([&] { outputs("all_to_all", {{"world_size", int64_t{2}}}); }), {"5 rows", "2 ranks"});
  expect_sentence(error_of([&] { outputs("reduce_scatter", {{"world_size", int64_t{2}}}); }), {"7 columns", "2 ranks"});
  expect_sentence(error_of([&] { outputs("all_gather", {{"output_size", int64_t{-8}}}); }), {"-8", "output_size"});
  expect_sentence(error_of([&] { outputs("all_gather", {{"dim", int64_t{1}}}); }), {"dim 1"});
}

}  // namespace
}  // namespace fk
