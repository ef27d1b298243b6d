// CUDA candidates: compiled by nvcc without a GPU, errors with their place, one result per architecture.
#include <gtest/gtest.h>

#include <filesystem>

#include "candidate/compile.h"
#include "candidate/operators_header.h"
#include "candidate/stubs.h"
#include "candidate/toolchain.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "tests/candidate/work_folder.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

class CudaCompile : public testing::Test {
 protected:
  void SetUp() override {
    if (find_nvcc().empty()) GTEST_SKIP() << "there is no nvcc here, so nothing can compile CUDA";
  }

  CompileResult compile(const std::string& text, const std::string& arch = "90a", bool libraries = false) {
    CompileOptions options = folder_.options();
    options.cuda_arch = arch;
    options.allow_libraries = libraries;
    return compile_candidate({&Registry::instance().at("rms_norm"), folder_.write("L1/rms_norm.cu", text)}, options);
  }
  static bool says(const CompileResult& result, std::string_view words) {
    return result.failure && result.failure->sentence.find(words) != std::string::npos;
  }
  static std::string stub() { return *stub_text(Registry::instance().at("rms_norm"), DeviceKind::kCuda); }
  static std::string changed(const std::string& from, const std::string& to) {
    std::string text = stub();
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return text.replace(text.find(from), from.size(), to);
  }

  WorkFolder folder_;
};

TEST_F(CudaCompile, OnceForEachArchitecture) {
  CompileResult hopper = compile(stub());
  ASSERT_FALSE(hopper.failure) << hopper.failure->sentence << "\n" << hopper.log;
  EXPECT_FALSE(hopper.from_cache);
  EXPECT_TRUE(compile(stub()).from_cache);
  CompileResult ampere = compile(stub(), "sm_80");
  ASSERT_FALSE(ampere.failure) << ampere.failure->sentence;
  EXPECT_FALSE(ampere.from_cache);
  EXPECT_NE(ampere.so_path, hopper.so_path);
}

TEST_F(CudaCompile, NamesThePlaceOfAnError) {
  CompileResult result = compile(changed("double squares = 0;", "double squared = 0;"));
  ASSERT_TRUE(result.failure);
  EXPECT_EQ(result.failure->verdict, Verdict::kBuildError);
  EXPECT_TRUE(says(result, "L1/rms_norm.cu:")) << result.failure->sentence;
  EXPECT_TRUE(says(result, "identifier \"squares\" is undefined")) << result.failure->sentence;
  result = compile(
      changed("int64_t r = item()", "__shared__ float much[100000]; int64_t r = item() + (int64_t)much[threadIdx.x]"));
  EXPECT_TRUE(says(result, "too much shared data")) << result.log;
}

TEST_F(CudaCompile, ShowsTheClassItExpects) {
  for (const std::string& text : {changed("fk::OptView residual_out) override", "int residual_out) override"),
                                  changed("public fk::RMSNorm {", "public fk::RMSNrom {")}) {
    CompileResult result = compile(text);
    ASSERT_TRUE(result.failure);
    EXPECT_EQ(result.failure->verdict, Verdict::kSignatureMismatch) << result.failure->sentence;
    EXPECT_TRUE(says(result, forward_signature(Registry::instance().at("rms_norm")))) << result.failure->sentence;
  }
  EXPECT_TRUE(says(compile(changed("FK_CANDIDATE(RMSNorm)", "")), "add it as the last line"));
}

TEST_F(CudaCompile, LinksLibrariesOnlyWhenAllowed) {
  std::string text = changed("// A thread for each row.", "#include <cublasLt.h>\n// A thread for each row.");
  std::string call = "cublasLtHandle_t handle; if (cublasLtCreate(&handle) != 0) throw fk::Error(\"cublas\");\n";
  size_t at = text.find("    fk::with_float(x.dtype()");
  text.insert(at, call);
  CompileResult result = compile(text);
  EXPECT_TRUE(says(result, "--allow-libraries")) << result.log;
  result = compile(text, "90a", true);
  EXPECT_FALSE(result.failure) << result.failure->sentence << result.log;
}

TEST_F(CudaCompile, HidesFilesOfOthers) {
  folder_.write("L1/beside.cuh", "#pragma once\n");
  EXPECT_FALSE(compile("#include \"beside.cuh\"\n" + stub()).failure);
  CompileResult included = compile("#include \"/etc/passwd\"\n" + stub());
  for (const Protection& p : included.protections)
    if (!p.on) GTEST_SKIP() << p.name << " is off: " << p.why;
  EXPECT_TRUE(says(included, "/etc/passwd is not open to it")) << included.log;
  CompileResult assembled = compile("asm(\".data\\n.incbin \\\"/etc/passwd\\\"\\n.text\");\n" + stub());
  EXPECT_TRUE(says(assembled, "/etc/passwd is not open to it")) << assembled.log;
}

TEST(CudaToolchain, SaysWhatIsMissing) {
  WorkFolder folder;
  CandidateFile file{&Registry::instance().at("rms_norm"), folder.write("L1/rms_norm.cu", "")};
  CompileOptions options = folder.options();
  options.cuda_arch = "90a";
  options.compiler = "/nowhere/nvcc";
  CompileResult result = compile_candidate(file, options);
  ASSERT_TRUE(result.failure);
  EXPECT_NE(result.failure->sentence.find("install the CUDA toolkit"), std::string::npos) << result.failure->sentence;
  options.cuda_arch = "hopper";
  result = compile_candidate(file, options);
  ASSERT_TRUE(result.failure);
  EXPECT_NE(result.failure->sentence.find("'hopper' is no CUDA architecture"), std::string::npos);
  if (!device_missing({DeviceKind::kCuda, 0}).empty() && getenv("FASTKERNELS_CUDA_ARCH") == nullptr) {
    options.cuda_arch = "";
    result = compile_candidate(file, options);
    ASSERT_TRUE(result.failure);
    EXPECT_NE(result.failure->sentence.find("FASTKERNELS_CUDA_ARCH"), std::string::npos) << result.failure->sentence;
  }
}

TEST(CudaToolchain, NamesArchitectures) {
  EXPECT_EQ(cuda_architecture("sm_90"), "90a");
  EXPECT_EQ(cuda_architecture("9.0"), "90a");
  EXPECT_EQ(cuda_architecture("90a"), "90a");
  EXPECT_EQ(cuda_architecture("sm_80"), "80");
  EXPECT_EQ(cuda_architecture("sm_120"), "120a");
  for (const char* bad : {"", "9", "sm_", "native", "90x", "90; rm"}) EXPECT_EQ(cuda_architecture(bad), "") << bad;
}

TEST(CudaFolder, EachDeviceHasItsOwnFile) {
  WorkFolder folder;
  const OperatorInfo& norm = Registry::instance().at("rms_norm");
  folder.write("L1/rms_norm.cpp", "");
  folder.write("L1/rms_norm.cu", "");
  folder.write("L1/softmax.cu", "");
  EXPECT_EQ(find_candidates(folder.path()).size(), 1u);
  EXPECT_EQ(find_candidates(folder.path(), DeviceKind::kCuda).size(), 2u);
  EXPECT_TRUE(find_candidate(folder.path(), norm).path.ends_with(".cpp"));
  EXPECT_TRUE(find_candidate(folder.path(), norm, DeviceKind::kCuda).path.ends_with(".cu"));
  EXPECT_EQ(find_candidate(folder.path(), norm, DeviceKind::kCuda).device(), DeviceKind::kCuda);
  try {
    find_candidate(folder.path(), Registry::instance().at("softmax"));
    FAIL() << "a CUDA candidate was found for the CPU";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--device cuda"), std::string::npos) << error.what();
  }
}

TEST(CudaStubs, AreWrittenBesideTheOthers) {
  WorkFolder folder;
  std::vector<const OperatorInfo*> ops = {&Registry::instance().at("rms_norm"), &Registry::instance().at("llama_mlp")};
  std::vector<WrittenStub> written = write_stubs(ops, folder.path(), DeviceKind::kCuda);
  ASSERT_EQ(written.size(), 1u);
  EXPECT_EQ(written[0].path, folder.path() + "/L1/rms_norm.cu");
  write_stubs(ops, folder.path());
  EXPECT_TRUE(fs::exists(folder.path() + "/L1/rms_norm.cpp"));
  for (const char* op : {"rms_norm", "gemma_rms_norm", "silu_and_mul", "gelu_and_mul", "softmax", "rotary_emb",
                         "store_kvcache", "embedding", "argmax", "index_select", "linear"}) {
    std::optional<std::string> text = stub_text(Registry::instance().at(op), DeviceKind::kCuda);
    ASSERT_TRUE(text) << op;
    EXPECT_EQ(text->find("%include"), std::string::npos) << op;
    EXPECT_NE(text->find("--device cuda"), std::string::npos) << op;
  }
}

}  // namespace
}  // namespace fk
