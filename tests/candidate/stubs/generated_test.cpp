// A new operator has no stub template: the generated stub compiles and passes the judge.
#include <gtest/gtest.h>

#include "candidate/stubs.h"
#include "candidate/swap.h"
#include "ops/register.h"
#include "tests/candidate/work_folder.h"
#include "tests/validate/fake_subject.h"
#include "validate/judge.h"

namespace fk {

// out = scale * x * weight, plus an optional bias: uses every kind of argument that a contract can have.
class ScaleAndShift : public Operator {
 public:
  static constexpr std::string_view kName = "scale_and_shift";
  static constexpr std::string_view kClass = "ScaleAndShift";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t width = 8;
    double scale = 0.5;
    DType dtype = DType::kBF16;
    template <class Visitor>
    void visit(Visitor&& v) {
      v("width", width);
      v("scale", scale);
      v("dtype", dtype);
    }
  };

  static constexpr std::array kArgs{in("x"), opt_in("bias"), out("out")};

  explicit ScaleAndShift(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View x, OptView bias, View out) = 0;

  static std::vector<ParamSpec> params(const Init& init) { return {{"weight", {{init.width}, init.dtype}}}; }
  static OutputSpecs outputs(const Init&, Args given) { return {given[0]->spec()}; }
  static Inputs inputs(const Init& init, const Workload& w) {
    InputSpec x{{{w.num_tokens(), init.width}, w.dtype}, Generator::normal()};
    return {x, w.optional_inputs ? std::optional(x) : std::nullopt};
  }
  static Cost cost(const Init& init, const Workload& w) {
    auto n = static_cast<double>(w.num_tokens() * init.width), size = static_cast<double>(dtype_size(w.dtype));
    return {.read_bytes = n * size, .written_bytes = n * size, .vector_flops = 2 * n};
  }
  static Tolerance tolerance(const Init&, DType dtype) { return rounding_tolerance(dtype); }
  static std::vector<Case<ScaleAndShift>> cases() {
    return {{"odd tail", {.width = 13}, Workload::tokens(5)},
            {"with bias", {.width = 32, .scale = 2}, Workload::tokens(9, true)},
            {"no tokens", {}, Workload::tokens(0)}};
  }

 protected:
  const Init init_;
};

namespace {

class ScaleAndShiftOracle final : public ScaleAndShift {
 public:
  using ScaleAndShift::ScaleAndShift;
  void forward(Context&, View x, OptView bias, View out) override {
    for (int64_t t = 0; t < x.size(0); ++t)
      for (int64_t i = 0; i < x.size(1); ++i)
        set(out, init_.scale * get(x, t, i) * get(param(0), i) + (bias ? get(*bias, t, i) : 0), t, i);
  }
};

FK_OPERATOR(ScaleAndShift, ScaleAndShiftOracle);

TEST(GeneratedStub, OfAnOperatorAddedJustNowPassesTheJudge) {
  const OperatorInfo& op = Registry::instance().at("scale_and_shift");
  std::optional<std::string> text = stub_text(op);
  ASSERT_TRUE(text.has_value());
  EXPECT_NE(text->find("init_.scale"), std::string::npos) << *text;
  EXPECT_NE(text->find("weight(\"weight\")"), std::string::npos) << *text;
  EXPECT_FALSE(stub_text(op, DeviceKind::kCuda)) << "the reference runs on the CPU only";
  WorkFolder folder;
  swap_in({folder.candidate("scale_and_shift", *text)}, folder.options());
  for (const OperatorInfo::ErasedCase& c : op.cases()) {
    if (c.workload.num_tokens() == 0) continue;
    BuildOptions oracle;
    oracle.oracle = true;
    validate::FakeSubject candidate(op, c.init), baseline(op, c.init, oracle);
    Judgement judgement = judge(op, c.init, c.workload, candidate, baseline, {.seed = 5, .random_shapes = 2});
    EXPECT_EQ(judgement.verdict, Verdict::kPassed) << c.label << ": " << judgement.sentence;
    EXPECT_GT(judgement.checks, 10);
  }
}

}  // namespace
}  // namespace fk
