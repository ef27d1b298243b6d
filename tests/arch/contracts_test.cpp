// Every operator in the registry has a complete contract, and the check reports each missing part.
#include "tests/arch/contracts.h"

#include <gtest/gtest.h>

#include <functional>

namespace fk::arch {
namespace {

TEST(Contracts, AreComplete) {
  std::vector<const OperatorInfo*> operators = Registry::instance().operators();
  ASSERT_FALSE(operators.empty());
  for (const OperatorInfo* op : operators) {
    EXPECT_EQ(check_contract(*op), std::vector<std::string>{}) << op->name;
    EXPECT_EQ(check_place(*op, FK_SOURCE_DIR), std::vector<std::string>{}) << op->name;
  }
}

TEST(Contracts, EveryPartTakenAwayIsNoticed) {
  struct Theft {
    const char* noticed_as;
    std::function<void(OperatorInfo&)> steal;
  };
  const Theft thefts[] = {
      {"has implementations but no contract", [](OperatorInfo& op) { op.class_name = {}; }},
      {"has level 0", [](OperatorInfo& op) { op.level = 0; }},
      {"lists no arguments of forward", [](OperatorInfo& op) { op.args.clear(); }},
      {"has no oracle at the end of its list", [](OperatorInfo& op) { op.implementations.clear(); }},
      {"has no cost", [](OperatorInfo& op) { op.cost = nullptr; }},
      {"has no inputs", [](OperatorInfo& op) { op.inputs = nullptr; }},
      {"has no tolerance", [](OperatorInfo& op) { op.tolerance = nullptr; }},
      {"cannot be built", [](OperatorInfo& op) { op.build = nullptr; }},
      {"has no cases", [](OperatorInfo& op) { op.cases = nullptr; }},
      {"has no cases", [](OperatorInfo& op) { op.cases = [] { return std::vector<OperatorInfo::ErasedCase>(); }; }},
      {"writes nothing: no output and no state", [](OperatorInfo& op) { op.args.pop_back(); }},
      {"has the argument 'late' behind an output", [](OperatorInfo& op) { op.args.push_back(in("late")); }},
      {"case 'one element': makes 0 inputs for 1 arguments",
       [](OperatorInfo& op) { op.inputs = [](const Fields&, const Workload&) { return Inputs(); }; }},
      {"case 'one element': makes no 'x', which is required",
       [](OperatorInfo& op) { op.inputs = [](const Fields&, const Workload&) { return Inputs(1); }; }},
      {"case 'one element': moves no bytes",
       [](OperatorInfo& op) { op.cost = [](const Fields&, const Workload&) { return Cost{}; }; }},
      {"case 'one element': has a cost below zero or not finite",
       [](OperatorInfo& op) {
         op.cost = [](const Fields&, const Workload&) { return Cost{.read_bytes = 0.0 / 0.0}; };
       }},
      {"case 'one element': has a tolerance for f32 outside 0 .. 1",
       [](OperatorInfo& op) {
         op.tolerance = [](const Fields&, DType t) { return Tolerance{.relative = t == DType::kF32 ? 2.0 : 0.0}; };
       }},
  };
  for (const Theft& theft : thefts) {
    OperatorInfo op = Registry::instance().at("argmax");
    ASSERT_TRUE(check_contract(op).empty());
    theft.steal(op);
    std::vector<std::string> missing = check_contract(op);
    EXPECT_NE(std::find(missing.begin(), missing.end(), theft.noticed_as), missing.end())
        << theft.noticed_as << "; reported: " << testing::PrintToString(missing);
  }
}

TEST(Contracts, AnOperatorInTheWrongPlaceIsNoticed) {
  OperatorInfo op = Registry::instance().at("argmax");
  op.level = 2;
  EXPECT_EQ(check_place(op, FK_SOURCE_DIR),
            (std::vector<std::string>{"has no src/ops/l2/argmax.h", "has no src/ops/l2/argmax.cpp"}));
}

}  // namespace
}  // namespace fk::arch
