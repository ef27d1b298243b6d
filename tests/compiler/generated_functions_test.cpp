// The functions that generated kernels for the CPU bring with them, over the whole range of float, and their rounding.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "candidate/compile.h"
#include "compiler/codegen/loop_nest.h"
#include "compiler/codegen/region_source.h"
#include "compiler/codegen/statement_text.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/rng.h"

namespace fk {
namespace {

using algebra::Expr;

constexpr int64_t kColumns = 70;  // two chunks of rounded elements, and a rest
constexpr float kInf = std::numeric_limits<float>::infinity();

// y0 ... = the expressions of x0 [T, kColumns] in f32, compiled and loaded.
class Functions : public testing::Test {
 protected:
  static Expr x() { return algebra::input("x0", DType::kF32, {kVaryingExtent + 3, kColumns}); }

  // Results by expression; the last row of x is filled up with zeros.
  std::vector<std::vector<float>> run(const std::vector<Expr>& exprs, std::vector<float> x) {
    std::vector<algebra::NamedExpr> results;
    RegionText text{"region", "", {"x0"}, nullptr};
    for (const Expr& e : exprs) {
      text.names.push_back("y" + std::to_string(results.size()));
      results.push_back({text.names.back(), e});
    }
    LoopProgram loops = lower_to_row_loops(results, {});
    if (!loops.refusal.empty()) throw Error("{}", loops.refusal);
    text.loops = &loops;
    auto* function = reinterpret_cast<RegionFunction>(compiled(region_source({text})));
    const auto rows = static_cast<int64_t>((x.size() + kColumns - 1) / kColumns);
    x.resize(static_cast<size_t>(rows * kColumns), 0.0f);
    const int64_t sizes[] = {rows, kColumns}, strides[] = {kColumns, 1};
    std::vector<RegionArray> arrays = {{x.data(), sizes, strides}};
    std::vector<std::vector<float>> wide(exprs.size(), x);
    std::vector<std::vector<bf16>> narrow(exprs.size(), std::vector<bf16>(x.size()));
    for (size_t i = 0; i < exprs.size(); ++i) {
      const bool rounds = exprs[i].dtype() == DType::kBF16;
      arrays.push_back({rounds ? static_cast<void*>(narrow[i].data()) : wide[i].data(), sizes, strides});
    }
    function(arrays.data(), 0, rows);
    for (size_t i = 0; i < exprs.size(); ++i)
      for (size_t k = 0; k < x.size() && exprs[i].dtype() == DType::kBF16; ++k)
        wide[i][k] = static_cast<float>(narrow[i][k]);
    return wide;
  }

 private:
  static void* compiled(const std::string& source) {
    namespace fs = std::filesystem;
    fs::path path = fs::path(testing::TempDir()) / "fk_generated_functions.cpp";
    std::ofstream(path) << source;
    CompileResult built = compile_candidate({nullptr, path.string()}, {.limit_ms = 300'000, .without_operator = true});
    if (built.failure) throw Error("{}\n{}", built.log, source);
    void* library = dlopen(built.so_path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw Error("{}", dlerror());
    return dlsym(library, "region");
  }
};

// From -range to range, and what is special.
std::vector<float> sweep(float range) {
  std::vector<float> x = {0.0f,    -0.0f,  kInf,   -kInf, NAN,    -NAN,  1e-30f,
                          -1e-30f, 1e-40f, 88.72f, 88.8f, -87.3f, 1e30f, -1e30f};
  constexpr int kSteps = 40000;
  for (int i = 0; i <= kSteps; ++i) x.push_back(range * (2 * static_cast<float>(i) / static_cast<float>(kSteps) - 1));
  return x;
}

// Within `relative` of the function in double. Results whose size is below `least` need only be that small.
void expect_near(const std::vector<float>& x, const std::vector<float>& got, double (*f)(double), double relative,
                 double least) {
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = f(static_cast<double>(x[i])), have = static_cast<double>(got[i]);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(have)) << x[i];
    } else if (!(std::fabs(want) <= static_cast<double>(std::numeric_limits<float>::max()))) {
      EXPECT_EQ(have, std::copysign(static_cast<double>(kInf), want)) << x[i];
    } else {
      EXPECT_LE(std::fabs(have - want), relative * std::fabs(want) + least) << x[i] << ": " << have << ", not " << want;
    }
  }
}

TEST_F(Functions, SlowAreRightOverTheirRange) {
  const std::vector<float> wide = sweep(100), small = sweep(1);
  for (const std::vector<float>& values : {wide, small}) {
    std::vector<std::vector<float>> y = run({exp(x()), tanh(x()), erfc(x())}, values);
    expect_near(values, y[0], std::exp, 3e-7, 0x1p-125);
    expect_near(values, y[1], std::tanh, 1e-6, 0);
    // The square in the exponent is rounded: its error grows with it.
    for (size_t i = 0; i < values.size(); ++i) {
      const double at = static_cast<double>(values[i]), more = std::isfinite(at) && at > 0 ? at * at * 1.2e-7 : 0;
      expect_near({values[i]}, {y[2][i]}, std::erfc, 1e-6 + more, 0x1p-125);
    }
  }
  std::vector<float> positive = sweep(1e4f);
  for (int e = -149; e < 128; ++e)
    for (float m : {1.0f, 1.0000001f, 1.41421f, 1.41422f, 1.99999f}) positive.push_back(std::ldexp(m, e));
  for (int i = -2000; i < 2000; ++i) positive.push_back(1 + static_cast<float>(i) * 0x1p-22f);  // where it is near zero
  expect_near(positive, run({log(x())}, positive)[0], std::log, 3e-7, 0);
  // Angles of positions; infinity is none.
  std::vector<float> angles = sweep(3), far = {131072.0f, -131072.5f, 1e6f, -8388607.5f};
  std::erase_if(angles, [](float a) { return !(std::fabs(a) < 1e8f); });
  angles.insert(angles.end(), far.begin(), far.end());
  std::vector<std::vector<float>> y = run({sin(x()), cos(x())}, angles);
  expect_near(angles, y[0], std::sin, 0, 2e-7);
  expect_near(angles, y[1], std::cos, 0, 2e-7);
}

TEST_F(Functions, SlowRoundingIsToNearestEven) {
  Stream stream(7, "bits");
  std::vector<float> values = sweep(2);
  for (uint32_t upper : {0x3f80u, 0x3f81u, 0x0000u, 0x0001u, 0x7f7fu, 0x807fu, 0xff7fu, 0x7f80u})  // ties, and around
    for (uint32_t lower : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
  for (uint64_t i = 0; i < 20000; ++i)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(stream.below(i, uint64_t{1} << 32))));
  std::vector<float> got = run({cast(x(), DType::kBF16)}, values)[0];
  for (size_t i = 0; i < values.size(); ++i) {
    const auto want = static_cast<float>(bf16(values[i]));
    // VCVTNEPS2BF16 takes subnormal numbers for zero, with their sign.
    const bool flushed = std::fabs(values[i]) < std::numeric_limits<float>::min() && got[i] == 0;
    if (std::isnan(want))
      EXPECT_TRUE(std::isnan(got[i])) << values[i];
    else if (flushed)
      EXPECT_EQ(std::signbit(got[i]), std::signbit(values[i])) << values[i];
    else
      EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want)) << values[i];
  }
}

// Each brings those that it calls, before itself, and no others.
TEST(FunctionTexts, BringWhatTheyCall) {
  const std::string text = functions_in("c0[k] = hyperbolic_tangent(x);");
  EXPECT_LT(text.find("inline float exponential("), text.find("inline float hyperbolic_tangent("));
  EXPECT_EQ(text.find("error_complement"), text.npos);
  EXPECT_EQ(text.find("turned"), text.npos);
  EXPECT_NE(functions_in("cosine(x)").find("inline float turned("), text.npos);
  EXPECT_EQ(functions_in("x + 1"), "");
}

}  // namespace
}  // namespace fk
