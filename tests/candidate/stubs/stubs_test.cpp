// Stubs and examples compile, load and agree with the float64 oracle on the operator's own cases, as baselines must: a
// stub is a correct start.
#include "candidate/stubs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <variant>

#include "candidate/operators_header.h"
#include "candidate/swap.h"
#include "candidate/toolchain.h"
#include "tests/candidate/together.h"
#include "tests/candidate/work_folder.h"
#include "tests/conformance/trial.h"

namespace fk {
namespace {

// Whether the weights are of a weight format; stubs and examples are written for elements, and refuse formats.
bool is_quantised(const Fields& init) {
  return std::any_of(init.begin(), init.end(), [](const Field& field) {
    if (const auto* inner = std::get_if<Fields>(&field.value)) return is_quantised(*inner);
    return field.name.ends_with("weight_format") && !std::get<std::string>(field.value).empty();
  });
}

// Calls that the candidate took, of all that its operator's cases make with weights of elements.
struct Share {
  int64_t candidate = 0;
  int64_t all = 0;
};

Share examine_candidate(const CandidateFile& file, const std::vector<std::string>& flags = {}) {
  const OperatorInfo& op = *file.op;
  WorkFolder folder;
  CompileOptions options = folder.options();
  options.cxxflags = flags;
  swap_in({file}, options);
  ThreadPool pool(2);
  Share share;
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    for (const OperatorInfo::ErasedCase& which : op.cases()) {
      conformance::Problem problem = conformance::make_problem(op, which, dtype);
      // With the composition beside the candidate: its parts name the weights that the candidate is given.
      std::unique_ptr<Node> node = op.build(problem.init, {});
      for (auto placement : {conformance::Placement::kMisaligned, conformance::Placement::kStridedRows}) {
        if (placement == conformance::Placement::kStridedRows && !problem.has_rows()) continue;
        conformance::Verdict verdict = examine(problem, conformance::subject_of(*node), placement, pool);
        EXPECT_EQ(verdict.refusal, "");
        for (const std::string& fault : verdict.faults)
          ADD_FAILURE() << fmt::format("{}, {}, case '{}': {}", file.path, dtype_name(dtype), which.label, fault);
      }
      for (const DispatchCount& count : collect_dispatches(*node)) {
        if (count.op != op.name || is_quantised(which.init)) continue;
        share.all += count.calls;
        if (count.implementation == kCandidateName) share.candidate += count.calls;
      }
    }
  }
  return share;
}

class Stubs : public testing::TestWithParam<const OperatorInfo*> {};

TEST_P(Stubs, AgreeWithTheOracle) {
  const OperatorInfo& op = *GetParam();
  std::optional<std::string> text = stub_text(op);
  ASSERT_TRUE(text.has_value());
  WorkFolder folder;
  // With -O1, which takes a third less time for the 210 of them; the examples below are compiled as users compile.
  std::vector<std::string> flags = {"-O1"};
  if (needs_own_class_only(op, *text)) flags.push_back("-DFK_OWN_OPERATOR_ONLY");
  Share share = examine_candidate(folder.candidate(std::string(op.name), *text), flags);
  EXPECT_EQ(share.candidate, share.all);
}

INSTANTIATE_TEST_SUITE_P(Registry, Stubs, testing::ValuesIn(Registry::instance().operators()),
                         [](const auto& p) { return std::string(p.param->name); });

// Correctness is tested on a GPU (tests/exploits/cuda_test.cpp); that they compile is tested on any machine.
TEST(CudaStubs, CompileForTheirArchitecture) {
  if (find_nvcc().empty()) GTEST_SKIP() << "there is no nvcc here, so nothing can compile CUDA";
  std::vector<CandidateText> stubs;
  for (const OperatorInfo* op : Registry::instance().operators())
    if (std::optional<std::string> text = stub_text(*op, DeviceKind::kCuda))
      stubs.push_back({op, fmt::format("the stub of {}", op->name), *text});
  EXPECT_GE(stubs.size(), 11u);
  CompileOptions options;
  options.cuda_arch = "90a";
  options.cxxflags = {"-Werror=all-warnings"};
  for (const std::string& error : compile_errors(stubs, DeviceKind::kCuda, options)) ADD_FAILURE() << error;
  // Alone, as its user compiles it.
  WorkFolder folder;
  options.cache_folder = folder.options().cache_folder;
  CompileResult built = compile_candidate({stubs[0].op, folder.write("alone.cu", stubs[0].text)}, options);
  EXPECT_FALSE(built.failure) << built.failure->sentence << "\n" << built.log;
  EXPECT_LT(built.seconds, 20);  // 4 s on a machine with nothing else to do
}

class Examples : public testing::TestWithParam<std::string> {};

// The optimised ones may refuse some calls, which the baseline then runs.
TEST_P(Examples, AgreeWithTheOracle) {
  std::vector<CandidateFile> files = find_candidates(GetParam());
  EXPECT_GE(files.size(), 5u);
  for (const CandidateFile& file : files) {
    Share share = examine_candidate(file);
    EXPECT_GE(2 * share.candidate, share.all) << file.path << " took " << share.candidate << " of " << share.all;
  }
}

const std::string kExamples = FK_SOURCE_DIR "/tasks/candidate/examples";
INSTANTIATE_TEST_SUITE_P(Ladder, Examples, testing::Values(kExamples + "/1_naive", kExamples + "/2_float", kExamples),
                         [](const auto& p) { return fmt::format("step{}", p.index + 1); });

}  // namespace
}  // namespace fk
