// Kernels written from definitions: compiled as candidates, loaded, and held against the oracle on every case.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "candidate/compile.h"
#include "candidate/load.h"
#include "compiler/codegen/cpp_kernel.h"
#include "compiler/codegen/loop_nest.h"
#include "core/error.h"
#include "ops/algebra/definition.h"
#include "tests/conformance/trial.h"

namespace fk {
namespace {

namespace fs = std::filesystem;
using algebra::Expr;

constexpr int64_t kVaryingTokens = kVaryingExtent + 3;
constexpr DType kDTypes[] = {DType::kBF16, DType::kF32};

// The inputs of a case, with a number of tokens that varies.
CallShape call_of(const OperatorInfo& info, const OperatorInfo::ErasedCase& which, DType dtype) {
  CallShape call{conformance::with_dtype(which.init, dtype), {}};
  Workload workload = which.workload;
  workload.dtype = dtype;
  for (const auto& input : info.inputs(call.init, workload)) {
    call.given.emplace_back();
    if (!input) continue;
    Shape shape = input->spec.shape;
    if (shape.rank() > 0 && shape[0] == workload.num_tokens()) shape[0] = kVaryingTokens;
    call.given.back() = View(nullptr, shape, input->spec.dtype);
  }
  return call;
}

std::vector<CallShape> calls_of(const OperatorInfo& info) {
  std::vector<CallShape> calls;
  for (const OperatorInfo::ErasedCase& which : info.cases())
    for (DType dtype : kDTypes) calls.push_back(call_of(info, which, dtype));
  return calls;
}

// Compiled and loaded into this process.
std::shared_ptr<const ForeignKernel> load(const OperatorInfo& info, const std::string& source,
                                          const std::vector<std::string>& flags) {
  fs::path folder = fs::path(testing::TempDir()) / fmt::format("fk_codegen_{}", info.name);
  fs::create_directories(folder);
  fs::path path = folder / fmt::format("{}.cpp", info.name);
  std::ofstream(path) << source;
  CompileResult compiled = compile_candidate({&info, path.string()}, {.cxxflags = flags, .limit_ms = 300'000});
  if (compiled.failure) throw Error("{}\n{}", compiled.log, source);
  EXPECT_TRUE(compiled.warnings.empty()) << compiled.warnings.front() << "\n" << source;
  return load_candidate(compiled.so_path, info);
}

conformance::Subject subject_of(ForeignOperator& op, const std::vector<ParamSpec>& params) {
  return {[&op, params](const Node::Lookup& weights) {
            std::vector<std::string> names;
            std::vector<View> views;
            for (const ParamSpec& p : params) {
              names.push_back(p.name);
              views.push_back(weights(p.name));
            }
            op.bind(names, views);
          },
          [&op](Context& ctx, Args args) { op.forward(ctx, args); },
          [&op](Args args) { return std::string(op.refuse(args)); }};
}

void expect_right_kernels(const std::string& name, const std::vector<std::string>& flags = {}) {
  SCOPED_TRACE(name);
  const OperatorInfo& info = Registry::instance().at(name);
  GeneratedCandidate candidate = generate_candidate(info, calls_of(info));
  for (const std::string& why : candidate.refusals) EXPECT_EQ(why, "");
  ASSERT_FALSE(candidate.source.empty());
  std::shared_ptr<const ForeignKernel> kernel = load(info, candidate.source, flags);
  ThreadPool pool(2);
  for (const OperatorInfo::ErasedCase& which : info.cases())
    for (DType dtype : kDTypes) {
      const conformance::Problem problem = conformance::make_problem(info, which, dtype);
      for (auto placement : {conformance::Placement::kMisaligned, conformance::Placement::kStridedRows}) {
        if (placement == conformance::Placement::kStridedRows && !problem.has_rows()) continue;
        std::unique_ptr<ForeignOperator> op = kernel->create(problem.init);
        conformance::Verdict verdict =
            conformance::examine(problem, subject_of(*op, collect_params(*problem.oracles)), placement, pool);
        EXPECT_EQ(verdict.refusal, "") << problem.label << " " << dtype_name(dtype);
        for (const std::string& fault : verdict.faults)
          ADD_FAILURE() << problem.label << " " << dtype_name(dtype) << ": " << fault << "\n" << candidate.source;
      }
    }
}

TEST(Codegen, SlowNormsAreRight) { expect_right_kernels("rms_norm"); }
TEST(Codegen, SlowSoftmaxIsRight) { expect_right_kernels("softmax"); }

// With -O1, which takes half the time: loops that are written for vectors become vectors with it, too.
TEST(Codegen, SlowAllLineKernelsAreRight) {
  for (const char* op : {"gemma_rms_norm",  "unweighted_rms_norm",
                         "layer_norm",      "silu_and_mul",
                         "gelu_and_mul",    "swigluoai_and_mul",
                         "relu2_and_mul",   "activation",
                         "scale_add",       "scale_rows",
                         "sigmoid_mul_add", "soft_cap",
                         "layer_scalar",    "attention_temperature",
                         "act_quant_int8",  "argmax",
                         "topk_softmax",    "embedding",
                         "index_select",    "per_expert_scale",
                         "moe_sum",         "shift_ids"})
    expect_right_kernels(op, {"-O1"});
}

std::string refusal_of(const Expr& e) { return lower_to_loops({{"out", e}}).refusal; }

TEST(Codegen, RefusesWhatItHasNoLoopsFor) {
  Expr x = algebra::input("x", DType::kF32, {kVaryingTokens, 8});
  EXPECT_EQ(refusal_of(x + 1), "");
  EXPECT_NE(refusal_of(sum(x, 0)), "");
  EXPECT_NE(refusal_of(transpose(x, 0, 1)), "");
  EXPECT_NE(refusal_of(scan(x, 1)), "");
  EXPECT_NE(refusal_of(cast(x, DType::kF8E4M3)), "");
  // In place, reading elements that were overwritten.
  EXPECT_NE(lower_to_loops({{"x", slice(x, 1, 7, 8, -1)}}).refusal, "");
}

TEST(Codegen, OpaqueAndUnknownCallsHaveNoKernel) {
  const OperatorInfo& linear = Registry::instance().at("linear");
  GeneratedCandidate none = generate_candidate(linear, calls_of(linear));
  EXPECT_EQ(none.covered, 0u);
  EXPECT_TRUE(none.source.empty());
  for (const std::string& why : none.refusals) EXPECT_NE(why, "");
}

// A fold, a table of exponentials, a fold and a store; the exponentials once, and one division for each row.
TEST(Codegen, SoftmaxIsFourLoops) {
  Expr x = algebra::input("x", DType::kF32, {kVaryingTokens, 100});
  LoopProgram loops = lower_to_loops({{"out", softmax(x, 1)}});
  ASSERT_EQ(loops.nests.size(), 1u);
  std::vector<LoopStatement::Kind> kinds;
  for (const LoopStatement& s : loops.nests[0].statements) kinds.push_back(s.kind);
  using Kind = LoopStatement::Kind;
  EXPECT_EQ(kinds, (std::vector<Kind>{Kind::kFold, Kind::kFill, Kind::kFold, Kind::kStore}));
}

TEST(Codegen, SaysWhatItComputes) {
  const OperatorInfo& info = Registry::instance().at("rms_norm");
  CallShape call = call_of(info, info.cases().front(), DType::kBF16);
  std::string source = generate_candidate(info, {call}).source;
  EXPECT_NE(source.find("// x bf16 [T, 1]; hidden_size=1"), source.npos) << source;
  EXPECT_NE(source.find("//   out = cast<bf16>("), source.npos) << source;
  EXPECT_EQ(source, generate_candidate(info, {call}).source);
}

}  // namespace
}  // namespace fk
