// The definition of every operator that has one, evaluated, against its oracle: every case, in f64 and in bf16.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "ops/algebra/definition.h"
#include "ops/algebra/evaluate.h"
#include "tests/conformance/trial.h"

namespace fk::conformance {
namespace {

std::vector<const OperatorInfo*> defined_operators() {
  std::vector<const OperatorInfo*> list;
  for (const OperatorInfo* info : Registry::instance().operators())
    if (has_definition(info->name)) list.push_back(info);
  return list;
}

// A call of the operator as its definition says.
class DefinedCall {
 public:
  DefinedCall(const OperatorInfo& info, const Fields& init) : info_(info), init_(init) {}

  Subject subject() {
    return {[this](const Node::Lookup& weights) { weights_ = weights; }, [this](Context&, Args args) { call(args); },
            [this](Args args) { return define(info_.name, init_, args).opaque(); }};
  }

 private:
  void call(Args args) {
    Definition definition = define(info_.name, init_, args);
    auto argument = [&](std::string_view name) -> const OptView* {
      for (size_t i = 0; i < info_.args.size(); ++i)
        if (info_.args[i].name == name) return &args[i];
      return nullptr;
    };
    algebra::Environment environment{[&](const algebra::Head& input) {
      const OptView* arg = argument(input.name);
      return algebra::load_values(arg == nullptr ? weights_(input.name) : **arg);
    }};
    std::vector<Expr> exprs;
    for (const algebra::NamedExpr& r : definition.results()) exprs.push_back(r.expr);
    std::vector<algebra::Values> values = algebra::evaluate(exprs, environment);
    for (size_t i = 0; i < values.size(); ++i)
      algebra::store_values(*values[i], **argument(definition.results()[i].name));
  }

  const OperatorInfo& info_;
  const Fields& init_;
  Node::Lookup weights_;
};

// Elements of all arrays between the inputs and the results.
int64_t elements_of(const Definition& definition) {
  int64_t all = 0;
  std::set<const algebra::ExprNode*> seen;
  auto visit = [&](auto&& self, const Expr& e) -> void {
    if (!seen.insert(e.id()).second) return;
    all += algebra::count_elements(e.shape());
    for (const Expr& x : e.inputs()) self(self, x);
  };
  for (const algebra::NamedExpr& r : definition.results()) visit(visit, r.expr);
  return all;
}

class Definitions : public testing::TestWithParam<const OperatorInfo*> {
 protected:
  // Compares the cases with this many elements.
  void compare(int64_t least, int64_t most) {
    const OperatorInfo& info = *GetParam();
    ThreadPool pool(1);
    for (const OperatorInfo::ErasedCase& which : info.cases()) {
      for (DType dtype : {DType::kF64, DType::kBF16}) {
        Fields init = with_dtype(which.init, dtype);
        Workload workload = which.workload;
        workload.dtype = dtype;
        std::vector<OptView> given;
        for (const auto& spec : info.inputs(init, workload))
          given.push_back(spec ? OptView(View(nullptr, spec->spec)) : std::nullopt);
        Definition definition = define(info.name, init, given);
        if (!definition.opaque().empty()) continue;
        int64_t elements = elements_of(definition);
        if (elements < least || elements > most) continue;
        Problem problem = make_problem(info, which, dtype);
        DefinedCall call(info, problem.init);
        Verdict verdict = examine(problem, call.subject(), Placement::kMisaligned, pool);
        EXPECT_EQ(verdict.refusal, "");
        for (const std::string& fault : verdict.faults)
          ADD_FAILURE() << fmt::format("{}, {}, case '{}' ({}): {}", info.name, dtype_name(dtype), problem.label,
                                       fields_text(problem.init), fault);
        ++compared_;
      }
    }
  }

  static constexpr int64_t kMany = 3'000'000;
  int compared_ = 0;
};

TEST_P(Definitions, AgreeWithTheOracle) {
  compare(0, kMany);
  EXPECT_GT(compared_, 0);
}

TEST_P(Definitions, SlowAgreeWithTheOracleOnLargeCases) { compare(kMany + 1, INT64_MAX); }

INSTANTIATE_TEST_SUITE_P(Registry, Definitions, testing::ValuesIn(defined_operators()),
                         [](const auto& p) { return std::string(p.param->name); });

// What models are made of can be opened, whatever operators are added.
TEST(Definitions, CoverTheOperatorsOfModels) {
  for (const char* op : {"linear", "rms_norm", "rotary_emb", "store_kvcache", "flash_attn_prefill", "flash_attn_decode",
                         "silu_and_mul", "embedding", "topk_softmax", "moe_align", "moe_grouped_gemm", "moe_sum"})
    EXPECT_TRUE(has_definition(op)) << op;
  EXPECT_FALSE(has_definition("sample"));
  EXPECT_NE(define("sample", {}, {}).opaque(), "");
}

}  // namespace
}  // namespace fk::conformance
