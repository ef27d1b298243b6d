// Trials in another process: results come back in order, and a kernel that crashes or hangs takes none but itself
// along.
#include "compiler/plan/trial_process.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "candidate/compile.h"
#include "candidate/compile_cache.h"
#include "core/error.h"
#include "engine/model.h"
#include "graph/flatten.h"
#include "graph/trace.h"
#include "models/catalog.h"
#include "models/resolve.h"

namespace fk {
namespace {

using testing::HasSubstr;

// Two kernels of a model on the CPU, for which the process works as for any other device.
class TrialProcess : public testing::Test {
 protected:
  TrialProcess() {
    ModelSource source = resolve_model("tiny-llama");
    std::unique_ptr<Node> root = build_model(source.config, {.oracle = true});
    flat_ = flatten(trace_graph(*root, "tiny-llama", GraphPhase::kDecode, source.config.facts.dtype));
    found_ = find_regions(flat_);
    std::vector<const FoundRegion*> all;
    for (const FoundRegion& f : found_) all.push_back(&f);
    CompiledRegions compiled = compile_regions(all, flat_);
    for (size_t i = 0; i < found_.size() && requests_.size() < 3; ++i)
      requests_.push_back({&found_[i], draft_of(found_[i], flat_).key, compiled.libraries[i]});
  }

  // A library with this in the place of the kernel.
  std::string other_library(const std::string& key, const std::string& body) {
    std::string source = fmt::format(
        "#include <stdint.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
        "extern \"C\" __attribute__((visibility(\"default\"))) void region_{}(const void*, int64_t, int64_t) {{ {} "
        "}}\n",
        key, body);
    std::string path =
        (std::filesystem::path(testing::TempDir()) / (Fingerprint().add(source).hex() + ".cpp")).string();
    write_whole(path, source);
    CompileResult built = compile_candidate({nullptr, path}, {.without_operator = true});
    EXPECT_FALSE(built.failure) << built.log;
    locks_.push_back(built.lock);
    return built.so_path;
  }

  std::vector<TrialResult> run(int limit_s = 60) {
    return try_kernels(flat_, requests_, {.rows = {}, .limit_s = limit_s}, kProgram,
                       [&](size_t i) { begun_.push_back(i); });
  }

  const std::vector<std::string> kProgram = {FK_BINARY_DIR "/fastkernels", "search", "--quiet",
                                             "--no-candidate-kernels", "--trial-request"};
  GraphBody flat_;
  std::vector<FoundRegion> found_;
  std::vector<TrialRequest> requests_;
  std::vector<size_t> begun_;
  std::vector<std::shared_ptr<void>> locks_;
};

TEST_F(TrialProcess, SlowRightKernelsAreRight) {
  std::vector<TrialResult> results = run();
  ASSERT_EQ(results.size(), 3u);
  for (const TrialResult& r : results) EXPECT_EQ(r.failure, "");
  EXPECT_EQ(begun_, (std::vector<size_t>{0, 1, 2}));
}

TEST_F(TrialProcess, AKernelThatCrashesEndsItsOwnTrialOnly) {
  requests_[1].library = other_library(requests_[1].key, "abort();");
  std::vector<TrialResult> results = run();
  EXPECT_EQ(results[0].failure, "");
  EXPECT_THAT(results[1].failure, HasSubstr("Aborted"));
  EXPECT_EQ(results[2].failure, "");
}

TEST_F(TrialProcess, AKernelThatHangsEndsItsOwnTrialOnly) {
  requests_[0].library = other_library(requests_[0].key, "pause();");
  std::vector<TrialResult> results = run(2);
  EXPECT_THAT(results[0].failure, HasSubstr("did not finish within 2 s"));
  EXPECT_EQ(results[1].failure, "");
}

TEST_F(TrialProcess, AKernelThatDoesNothingIsWrong) {
  requests_[2].library = other_library(requests_[2].key, "");
  std::vector<TrialResult> results = run();
  EXPECT_EQ(results[0].failure, "");
  EXPECT_THAT(results[2].failure, HasSubstr("result 0"));
}

TEST_F(TrialProcess, ALibraryThatIsGoneIsAFailureOfItsKernel) {
  requests_[0].library = "/no/such/library.so";
  std::vector<TrialResult> results = run();
  EXPECT_THAT(results[0].failure, HasSubstr("cannot be loaded"));
  EXPECT_EQ(results[1].failure, "");
}

TEST_F(TrialProcess, AProgramThatDoesNotStartIsAnError) {
  EXPECT_THROW(try_kernels(flat_, requests_, {.rows = {}}, {"/no/such/program"}), Error);
  EXPECT_THROW(try_kernels(flat_, requests_, {.rows = {}}, {"/bin/false"}), Error);
}

}  // namespace
}  // namespace fk
