// The oracle of gelu keeps its relative accuracy where the usual formula cancels to zero.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "core/memory.h"
#include "ops/registry.h"

namespace fk {
namespace {

double gelu(const char* approximate, double gate) {
  BuildOptions oracle;
  oracle.oracle = true;
  const OperatorInfo& info = Registry::instance().at("gelu_and_mul");
  std::unique_ptr<Node> root = info.build({{"approximate", std::string(approximate)}}, oracle);
  Tensor x({1, 2}, DType::kF64), out({1, 1}, DType::kF64);
  x.ptr<double>()[0] = gate;
  x.ptr<double>()[1] = 1;
  ThreadPool pool(1);
  Arena arena;
  Context ctx{.pool = pool, .arena = arena, .attention = nullptr, .states = {}};
  std::vector<OptView> args = {x.view(), out.view()};
  root->call(ctx, args);
  return out.ptr<double>()[0];
}

TEST(GeluOracle, IsAccurateForLargeNegativeGates) {
  for (double g : {-0.5, -3.0, -6.0, -8.0, -10.0}) {
    // In long double the cancellation is put off to where it does not matter here.
    long double u = std::sqrt(2 / std::numbers::pi_v<long double>) * (g + 0.044715L * g * g * g);
    long double want = g * std::exp(2 * u) / (1 + std::exp(2 * u));
    EXPECT_NEAR(gelu("tanh", g) / static_cast<double>(want), 1, 1e-12) << g;
    EXPECT_LT(gelu("none", g), 0) << g;
  }
  EXPECT_LT(gelu("tanh", -10), 0);
  EXPECT_EQ(gelu("tanh", -1000), 0);
  EXPECT_EQ(gelu("tanh", 1000), 1000);
  EXPECT_EQ(gelu("tanh", 0), 0);
}

}  // namespace
}  // namespace fk
