// The compiler's sandbox: a candidate may include files of the system, of its own folder and of folders that the user
// named.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "candidate/compile.h"
#include "tests/candidate/work_folder.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

class CompilerWalls : public testing::Test {
 protected:
  CompileResult compile(const std::string& text) {
    result_ = compile_candidate(folder_.candidate("rms_norm", text), options_);
    return result_;
  }
  // Whether the sandbox is active; a system without Landlock reports that it is not, and compiles anyway.
  bool landlock() const {
    for (const Protection& p : result_.protections)
      if (p.name == "the compiler's landlock") return p.on;
    return false;
  }
  void expect_closed(const std::string& text, const std::string& file) {
    compile(text);
    if (!landlock()) GTEST_SKIP() << "this system has no Landlock";
    ASSERT_TRUE(result_.failure) << file << " became part of the library";
    EXPECT_EQ(result_.failure->verdict, Verdict::kBuildError);
    EXPECT_NE(result_.failure->sentence.find(file + " is not open to it"), std::string::npos)
        << result_.failure->sentence << "\n"
        << result_.log;
    EXPECT_EQ(result_.log.find("root:x:"), std::string::npos) << "a message quotes the file";
  }
  void expect_built(const std::string& text) {
    compile(text);
    EXPECT_FALSE(result_.failure) << result_.failure->sentence << "\n" << result_.log;
  }
  static std::string incbin(const std::string& file) {
    return fmt::format("asm(\".data\\n.incbin \\\"{}\\\"\\n.text\");\n", file) + rms_norm_with("");
  }
  static std::string include(const std::string& file) {
    return fmt::format("#include \"{}\"\n", file) + rms_norm_with("");
  }
  // A compiler that does something first.
  std::string compiler(const std::string& first) {
    std::string script = folder_.write("tools/compiler", "#!/bin/sh\n" + first + "\nexec g++ \"$@\"\n");
    chmod(script.c_str(), 0755);
    return script;
  }

  WorkFolder folder_, elsewhere_;
  CompileOptions options_ = folder_.options();
  CompileResult result_;
};

TEST_F(CompilerWalls, HideTheSystemsSecrets) {
  expect_closed(include("/etc/passwd"), "/etc/passwd");
  expect_closed(incbin("/etc/passwd"), "/etc/passwd");
  expect_closed(incbin("/proc/self/environ"), "/proc/self/environ");
}

TEST_F(CompilerWalls, HideOtherFolders) {
  std::string secret = elsewhere_.write("secret.h", "constexpr int kSecret = 1;\n");
  expect_closed(include(secret), secret);
  expect_closed(incbin(secret), secret);
  std::string history = folder_.write("cache/history.db", "everything measured");
  expect_closed(incbin(history), history);
  std::string link = folder_.path() + "/L1/beside.h";
  fs::create_symlink(secret, link);
  expect_closed(incbin(link), link);
}

TEST_F(CompilerWalls, LeaveTheCandidatesOwnFilesOpen) {
  folder_.write("L1/beside.h", "#include \"parts/below.h\"\n");
  folder_.write("L1/parts/below.h", "#pragma once\n");
  folder_.write("shared.h", "#pragma once\n");
  folder_.write("L1/table.bin", "1234");
  expect_built("#include \"beside.h\"\n#include \"../shared.h\"\n#include <vector>\n#include <omp.h>\n" +
               incbin(folder_.path() + "/L1/table.bin"));
  for (const Protection& p : result_.protections) EXPECT_TRUE(p.on || !p.why.empty()) << p.name;
  EXPECT_EQ(result_.protections.size(), 3u);
}

TEST_F(CompilerWalls, OpenWhatTheUserNames) {
  elsewhere_.write("include/library.h", "#pragma once\n");
  elsewhere_.write("system/other.h", "#pragma once\n");
  expect_closed(include(elsewhere_.path() + "/include/library.h"), elsewhere_.path() + "/include/library.h");
  options_.cxxflags = {"-I" + elsewhere_.path() + "/include", "-isystem", elsewhere_.path() + "/system"};
  expect_built("#include <other.h>\n" + include("library.h"));
}

TEST_F(CompilerWalls, LetACompilerWriteNowhereElse) {
  std::string stolen = elsewhere_.path() + "/stolen";
  options_.compiler = compiler("echo something > " + stolen + "\necho something > \"$TMPDIR\"/mine && echo written");
  expect_built(rms_norm_with(""));
  EXPECT_NE(result_.log.find("written"), std::string::npos) << result_.log;
  EXPECT_FALSE(landlock() && fs::exists(stolen));
  for (const auto& entry : fs::directory_iterator(folder_.path() + "/cache/candidates"))
    EXPECT_FALSE(entry.is_directory()) << entry.path() << " is left";
}

// Also processes that left its group, if the system has namespaces.
TEST_F(CompilerWalls, EndEverythingACompilerStarted) {
  std::string mark = fmt::format("{}.25", 100000 + getpid());
  options_.compiler = compiler("setsid sleep " + mark + " &\nsleep " + mark);
  options_.limit_ms = 500;
  compile(rms_norm_with(""));
  ASSERT_TRUE(result_.failure);
  EXPECT_NE(result_.failure->sentence.find("did not compile within"), std::string::npos) << result_.failure->sentence;
  ASSERT_FALSE(result_.protections.empty());
  if (!result_.protections[0].on) GTEST_SKIP() << "this system has no namespaces for us";
  for (const auto& process : fs::directory_iterator("/proc")) {
    std::ifstream file(process.path() / "cmdline");
    std::string words{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(words.find(mark), std::string::npos) << process.path() << " is left";
  }
}

TEST_F(CompilerWalls, SayWhichCompilersCannotWorkBehindThem) {
  options_.compiler = "distcc g++";
  compile(rms_norm_with(""));
  ASSERT_TRUE(result_.failure);
  EXPECT_NE(result_.failure->sentence.find("set CXX to the compiler itself"), std::string::npos)
      << result_.failure->sentence;
}

}  // namespace
}  // namespace fk
