// Tests of the conformance test: an honest implementation passes, and every planted error is reported correctly.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "tests/conformance/compare.h"
#include "tests/conformance/trial.h"

namespace fk::conformance {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

OperatorInfo::ErasedCase case_named(const OperatorInfo& info, std::string_view label) {
  for (const auto& c : info.cases())
    if (c.label == label) return c;
  ADD_FAILURE() << "no case " << label;
  return {};
}

// RMSNorm with a residual: two inputs, a weight and two outputs, with something wrong after each honest call.
class PlantedErrors : public testing::Test {
 protected:
  enum Arg : size_t { kX, kResidual, kOut, kResidualOut };

  using Mischief = std::function<void(int call, Args args)>;

  std::string faults_after(const Mischief& mischief, Placement placement = Placement::kAligned) {
    std::unique_ptr<Node> honest = problem_.info->build(problem_.init, {});
    Subject subject = subject_of(*honest);
    int calls = 0;
    Subject liar{[&](const Node::Lookup& weights) {
                   weight_ = weights("weight");
                   subject.bind(weights);
                 },
                 [&](Context& ctx, Args args) {
                   subject.call(ctx, args);
                   mischief(calls++, args);
                 }};
    ThreadPool pool(1);
    Verdict verdict = examine(problem_, liar, placement, pool);
    EXPECT_EQ(verdict.refusal, "");
    std::string all;
    for (const std::string& fault : verdict.faults) all += fault + "\n";
    return all;
  }

  double allowed_at(const View& reference, int64_t t, int64_t i) const {
    double scale = 0;
    for (int64_t r = 0; r < reference.size(0); ++r)
      for (int64_t c = 0; c < reference.size(1); ++c) scale = std::max(scale, std::abs(get(reference, r, c)));
    return problem_.tolerance.relative * std::abs(get(reference, t, i)) + problem_.tolerance.of_scale * scale;
  }

  const OperatorInfo& info_ = Registry::instance().at("rms_norm");
  Problem problem_ = make_problem(info_, case_named(info_, "odd tail with residual"), DType::kF32);
  View weight_;
};

TEST_F(PlantedErrors, NoneMeansNoFault) {
  for (Placement placement : {Placement::kAligned, Placement::kMisaligned, Placement::kStridedRows})
    EXPECT_EQ(faults_after([](int, Args) {}, placement), "");
}

TEST_F(PlantedErrors, NaN) {
  std::string faults = faults_after([](int, Args args) { set(*args[kOut], kNaN, 2, 7); });
  EXPECT_NE(faults.find("'out'"), faults.npos) << faults;
  EXPECT_NE(faults.find("[2, 7]: nan instead of"), faults.npos) << faults;
}

TEST_F(PlantedErrors, OneElementBeyondTolerance) {
  const View& reference = problem_.expected[kResidualOut]->view();
  double allowed = allowed_at(reference, 4, 130), ref = get(reference, 4, 130);
  EXPECT_EQ(faults_after([&](int, Args args) { set(*args[kResidualOut], ref + 0.5 * allowed, 4, 130); }), "");
  std::string faults = faults_after([&](int, Args args) { set(*args[kResidualOut], ref + 1.5 * allowed, 4, 130); });
  EXPECT_NE(faults.find("'residual_out': 1 of 655 elements are off, worst at [4, 130]"), faults.npos) << faults;
}

// An implementation that leaves an output, or one element of it, as it found it.
TEST_F(PlantedErrors, StaleOutput) {
  ThreadPool pool(1);
  std::unique_ptr<Node> honest = problem_.info->build(problem_.init, {});
  Subject subject = subject_of(*honest);
  for (bool from_the_start : {true, false}) {
    int calls = 0;
    Subject lazy{subject.bind, [&](Context& ctx, Args args) {
                   float found = *args[kOut]->ptr<float>();
                   subject.call(ctx, args);
                   if (from_the_start || calls++ > 0) *args[kOut]->ptr<float>() = found;
                 }};
    Verdict verdict = examine(problem_, lazy, Placement::kAligned, pool);
    ASSERT_FALSE(verdict.faults.empty());
    std::string expected = from_the_start ? "call 1: 'out'" : "call 2: 'out'";
    EXPECT_NE(verdict.faults[0].find(expected), std::string::npos) << verdict.faults[0];
  }
}

TEST_F(PlantedErrors, BitsThatChangeFromCallToCall) {
  std::string faults = faults_after([&](int call, Args args) {
    float* x = args[kOut]->ptr<float>() + 5;
    if (call == 2) *x = std::nextafter(*x, 2 * *x);
  });
  EXPECT_NE(faults.find("call 3: 'out' differs in its bits"), faults.npos) << faults;
}

#if defined(__SANITIZE_ADDRESS__)
TEST_F(PlantedErrors, ReadOrWriteOutsideABufferStopsAtOnce) {
  auto touch = [](int, Args args) { args[kOut]->ptr<float>()[0] = args[kX]->ptr<float>()[args[kX]->numel()]; };
  EXPECT_DEATH(faults_after(touch), "use-after-poison");
  EXPECT_DEATH(faults_after([](int, Args args) { args[kOut]->ptr<float>()[-2] = 0; }), "use-after-poison");
}
#else
TEST_F(PlantedErrors, WriteOutsideABuffer) {
  auto hit = [](Arg arg, int64_t element) {
    return [=](int, Args args) { args[arg]->ptr<float>()[element >= 0 ? args[arg]->numel() + element : element] = 0; };
  };
  for (Arg arg : {kX, kResidual, kOut, kResidualOut}) {
    for (int64_t element : {-1, 0, 5}) {
      std::string faults = faults_after(hit(arg, element));
      EXPECT_NE(faults.find("wrote outside"), faults.npos) << faults;
    }
  }
  std::string gap =
      faults_after([](int, Args args) { args[kX]->ptr<float>()[args[kX]->size(1)] = 0; }, Placement::kStridedRows);
  EXPECT_NE(gap.find("wrote outside 'x'"), gap.npos) << gap;
}
#endif

TEST_F(PlantedErrors, ChangedInput) {
  std::string faults = faults_after([](int, Args args) { set(*args[kResidual], 0, 1, 1); });
  EXPECT_NE(faults.find("changed the input 'residual'"), faults.npos) << faults;
}

TEST_F(PlantedErrors, ChangedWeight) {
  std::string faults = faults_after([&](int, Args) { set(weight_, -0.0, 3); });
  EXPECT_NE(faults.find("changed the input 'weight'"), faults.npos) << faults;
}

TEST_F(PlantedErrors, AnExceptionIsAFaultAndNotARefusal) {
  std::string faults = faults_after([](int, Args) { throw Error("out of luck"); });
  EXPECT_NE(faults.find("threw: out of luck"), faults.npos) << faults;
}

TEST_F(PlantedErrors, ARefusalIsNoFaultAndTheCallIsNotMade) {
  ThreadPool pool(1);
  Subject choosy{[](const Node::Lookup&) {}, [](Context&, Args) { ADD_FAILURE() << "called"; },
                 [](Args) { return std::string("not today"); }};
  Verdict verdict = examine(problem_, choosy, Placement::kAligned, pool);
  EXPECT_EQ(verdict.refusal, "not today");
  EXPECT_TRUE(verdict.faults.empty());
}

TEST(StateOfACall, LeftAloneIsReported) {
  const OperatorInfo& info = Registry::instance().at("rotary_emb");
  Problem problem = make_problem(info, case_named(info, "default"), DType::kF32);
  ThreadPool pool(1);
  Subject idle{[](const Node::Lookup&) {}, [](Context&, Args) {}};
  Verdict verdict = examine(problem, idle, Placement::kAligned, pool);
  ASSERT_EQ(verdict.faults.size(), 2u);
  EXPECT_NE(verdict.faults[0].find("'query'"), std::string::npos) << verdict.faults[0];
  EXPECT_NE(verdict.faults[1].find("'key'"), std::string::npos) << verdict.faults[1];
}

TEST(JudgedOperator, ReportsATokenNobodyDrew) {
  const OperatorInfo& info = Registry::instance().at("sample");
  Problem problem = make_problem(info, case_named(info, "odd vocabulary"), DType::kF32);
  ThreadPool pool(1);
  Subject wrong{[](const Node::Lookup&) {},
                [](Context&, Args args) {
                  for (int64_t s = 0; s < args[7]->size(0); ++s) set(*args[7], 330, s);
                }};
  EXPECT_FALSE(examine(problem, wrong, Placement::kAligned, pool).faults.empty());
}

// The inputs hold every kind of row: greedy, and with each filter off; and a wrong token in a greedy row is seen.
TEST(JudgedOperator, CoversGreedyRowsAndRowsWithoutFilters) {
  const OperatorInfo& info = Registry::instance().at("sample");
  enum Arg : size_t { kTemperature = 1, kTopK, kTopP, kMinP, kOut = 7 };
  for (std::string_view label : {"small vocabulary", "odd vocabulary"}) {
    Problem problem = make_problem(info, case_named(info, label), DType::kF32);
    auto rows_with = [&](Arg arg, double value) {
      int64_t count = 0;
      const View& v = problem.data.given[arg]->view();
      for (int64_t s = 0; s < v.size(0); ++s) count += get(v, s) == value ? 1 : 0;
      return count;
    };
    EXPECT_GE(rows_with(kTemperature, 0), 4);
    EXPECT_GE(rows_with(kTopK, 0), 1);
    EXPECT_GE(rows_with(kTopP, 1), 4);
    EXPECT_GE(rows_with(kMinP, 0), 4);
    ThreadPool pool(1);
    std::unique_ptr<Node> node = info.build(problem.init, {});
    Subject honest = subject_of(*node);
    Subject liar{honest.bind, [&](Context& ctx, Args args) {
                   honest.call(ctx, args);
                   for (int64_t s = 0; s < args[kOut]->size(0); ++s)
                     if (get(*args[kTemperature], s) == 0) set(*args[kOut], get(*args[kOut], s) == 0 ? 1 : 0, s);
                 }};
    EXPECT_TRUE(examine(problem, honest, Placement::kAligned, pool).faults.empty());
    Verdict verdict = examine(problem, liar, Placement::kAligned, pool);
    ASSERT_FALSE(verdict.faults.empty());
    EXPECT_NE(verdict.faults[0].find("is greedy"), std::string::npos) << verdict.faults[0];
  }
}

// A refused case is no fault, but an implementation that refuses all cases does not pass.
TEST(Sweep, OfRefusalsOnlyIsAFault) {
  const OperatorInfo& info = Registry::instance().at("rms_norm");
  ThreadPool pool(1);
  Sweep all;
  std::unique_ptr<Node> node = info.build(info.default_init(), {});
  for (const auto& which : info.cases()) {
    Problem problem = make_problem(info, which, DType::kF32);
    node = info.build(problem.init, {});
    Subject refuses = subject_of(*node);
    refuses.refusal = [](Args) { return "no time"; };
    all.add(examine(problem, refuses, Placement::kAligned, pool));
  }
  EXPECT_EQ(all.examined, 0);
  EXPECT_NE(all.fault().find("times: no time"), std::string::npos) << all.fault();
  Problem problem = make_problem(info, info.cases().front(), DType::kF32);
  node = info.build(problem.init, {});
  all.add(examine(problem, subject_of(*node), Placement::kAligned, pool));
  EXPECT_EQ(all.fault(), "");
}

class Difference : public testing::Test {
 protected:
  std::string of(std::vector<double> result, std::vector<double> reference, Tolerance tolerance) {
    auto n = static_cast<int64_t>(result.size());
    return difference(View(result.data(), {n}, DType::kF64), View(reference.data(), {n}, DType::kF64), tolerance);
  }
};

TEST_F(Difference, IsNoneUpToTheTolerance) {
  EXPECT_EQ(of({1.01, -2, 0}, {1, -2, 0}, {.relative = 0.0101}), "");
  EXPECT_EQ(of({1, 100, 0.5}, {1, 100, 0}, {.of_scale = 0.0051}), "");
  EXPECT_NE(of({1.02, -2, 0}, {1, -2, 0}, {.relative = 0.0101}), "");
  EXPECT_NE(of({1, 1, 1e-300}, {1, 1, 0}, {}), "");
  EXPECT_EQ(of({}, {}, {}), "");
}

TEST_F(Difference, SubnormalNumbersMayBeFlushedToZero) {
  auto flushed = [](DType dtype, double reference, const Tolerance& tolerance = {.relative = 1e-6, .of_scale = 0}) {
    Tensor result({1}, dtype);
    return difference(result, View(&reference, {1}, DType::kF64), tolerance);
  };
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    EXPECT_EQ(flushed(dtype, 0x1p-127), "");
    EXPECT_EQ(flushed(dtype, -0x1.fp-127), "");
    EXPECT_NE(flushed(dtype, 0x1.1p-126), "");
  }
  EXPECT_EQ(flushed(DType::kF16, 0x1p-25), "");  // rounds to zero
  EXPECT_NE(flushed(DType::kF16, 0x1p-24), "");  // the smallest subnormal number counts
  EXPECT_NE(flushed(DType::kF32, 0x1p-127, {}), "") << "a copy changes nothing";
}

TEST_F(Difference, NeverAcceptsANaNOrAWrongInfinity) {
  Tolerance wide{.relative = 1e300, .of_scale = 1e300};
  EXPECT_NE(of({kNaN, 1}, {1, 1}, wide), "");
  EXPECT_NE(of({1, 1}, {kNaN, 1}, wide), "");
  EXPECT_NE(of({kNaN, 1}, {kNaN, 1}, wide), "");
  EXPECT_NE(of({kInf, 1}, {1, 1}, wide), "");
  EXPECT_NE(of({kInf, 1}, {-kInf, 1}, wide), "");
  EXPECT_EQ(of({kInf, 1}, {kInf, 1}, {}), "");
  // An infinity in the reference must not widen the bound of its neighbours.
  EXPECT_NE(of({kInf, 2}, {kInf, 1}, {.of_scale = 0.1}), "");
}

TEST_F(Difference, NamesTheWorstElement) {
  std::string text = of({1, 2.5, 3.1, 4}, {1, 2, 3, 4}, {.relative = 1e-3});
  EXPECT_NE(text.find("2 of 4 elements are off, worst at [1]: 2.5 instead of 2"), text.npos) << text;
  text = of({9, kNaN}, {1, 2}, {});
  EXPECT_NE(text.find("worst at [1]: nan instead of 2"), text.npos) << text;
}

}  // namespace
}  // namespace fk::conformance
