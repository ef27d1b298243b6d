// Compiling candidates: errors are one sentence with a position, and nothing is compiled twice.
#include "candidate/compile.h"

#include "candidate/compile_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "candidate/operators_header.h"
#include "tests/candidate/work_folder.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

class Compile : public testing::Test {
 protected:
  Failure failure_of(const std::string& text, const std::string& op = "rms_norm") {
    result_ = compile_candidate(folder_.candidate(op, text), folder_.options());
    EXPECT_TRUE(result_.failure.has_value());
    EXPECT_EQ(result_.so_path, "");
    return result_.failure.value_or(Failure{});
  }
  void expect_mismatch(const std::string& text) {
    Failure failure = failure_of(text);
    EXPECT_EQ(failure.verdict, Verdict::kSignatureMismatch) << failure.sentence << "\n" << result_.log;
    EXPECT_NE(failure.sentence.find(forward_signature(Registry::instance().at("rms_norm"))), std::string::npos)
        << failure.sentence;
    EXPECT_NE(failure.sentence.find("rms_norm.cpp"), std::string::npos) << failure.sentence;
    EXPECT_LT(std::count(failure.sentence.begin(), failure.sentence.end(), '\n'), 8);
  }
  void expect_other_classes_seen(int compiled);
  static bool says(const Failure& failure, std::string_view words) {
    return failure.sentence.find(words) != std::string::npos;
  }

  WorkFolder folder_;
  CompileResult result_;
};

TEST_F(Compile, GivesALibrary) {
  CompileResult result = compile_candidate(folder_.candidate("rms_norm", rms_norm_with("")), folder_.options());
  ASSERT_FALSE(result.failure.has_value()) << result.failure->sentence << "\n" << result.log;
  EXPECT_TRUE(fs::exists(result.so_path));
  EXPECT_FALSE(result.from_cache);
}

TEST_F(Compile, NamesThePlaceOfASyntaxError) {
  Failure failure = failure_of(rms_norm_with("int y = ;"));
  EXPECT_EQ(failure.verdict, Verdict::kBuildError);
  EXPECT_TRUE(says(failure, "L1/rms_norm.cpp:5:")) << failure.sentence;
  EXPECT_TRUE(says(failure, "expected primary-expression") || says(failure, "expected expression")) << failure.sentence;
  EXPECT_NE(result_.log.find("int y = ;"), std::string::npos) << result_.log;
}

TEST_F(Compile, NamesAMissingInclude) {
  Failure failure = failure_of("#include \"nowhere.h\"\n" + rms_norm_with(""));
  EXPECT_EQ(failure.verdict, Verdict::kBuildError);
  EXPECT_TRUE(says(failure, "rms_norm.cpp:1:")) << failure.sentence;
  EXPECT_TRUE(says(failure, "nowhere.h")) << failure.sentence;
}

TEST_F(Compile, SlowShowsTheExpectedSignature) {
  const std::string start = "#include <fastkernels/candidate.h>\n";
  // Another argument list, none at all, another return type, another base, no base, another name, no constructor.
  expect_mismatch(start +
                  "class RMSNorm : public fk::RMSNorm {\n using fk::RMSNorm::RMSNorm;\n"
                  " void forward(fk::Context& ctx, fk::View x, fk::View out) override {}\n};\nFK_CANDIDATE(RMSNorm)\n");
  expect_mismatch(start +
                  "class RMSNorm : public fk::RMSNorm {\n public:\n using fk::RMSNorm::RMSNorm;\n};\n"
                  "FK_CANDIDATE(RMSNorm)\n");
  expect_mismatch(
      start +
      "class RMSNorm : public fk::RMSNorm {\n public:\n using fk::RMSNorm::RMSNorm;\n"
      " int forward(fk::Context&, fk::View, fk::OptView, fk::View, fk::OptView) override { return 0; }\n};\n"
      "FK_CANDIDATE(RMSNorm)\n");
  expect_mismatch(start +
                  "class Softmax : public fk::Softmax {\n public:\n using fk::Softmax::Softmax;\n"
                  " void forward(fk::Context&, fk::View, fk::View) override {}\n};\nFK_CANDIDATE(Softmax)\n");
  expect_mismatch(start + "class RMSNorm {};\nFK_CANDIDATE(RMSNorm)\n");
  expect_mismatch(start + "class RMSNorm : public fk::RmsNorm {};\nFK_CANDIDATE(RMSNorm)\n");
  expect_mismatch(start +
                  "class Mine : public fk::RMSNorm {\n public:\n using fk::RMSNorm::RMSNorm;\n"
                  " void forward(fk::Context&, fk::View, fk::OptView, fk::View, fk::OptView) override {}\n};\n"
                  "FK_CANDIDATE(Mine)\n");
  expect_mismatch(start +
                  "class RMSNorm : public fk::RMSNorm {\n public:\n"
                  " void forward(fk::Context&, fk::View, fk::OptView, fk::View, fk::OptView) override {}\n};\n"
                  "FK_CANDIDATE(RMSNorm)\n");
}

// Most candidates are compiled with the class of their own operator only; those that name others see all.
// Which texts need the classes of others; that one of them is given these classes. All of them are compiled below.
TEST_F(Compile, SeesTheClassesThatItNames) { expect_other_classes_seen(1); }
TEST_F(Compile, SlowSeesTheClassesThatItNames) { expect_other_classes_seen(4); }

void Compile::expect_other_classes_seen(int compiled) {
  const OperatorInfo& op = Registry::instance().at("rms_norm");
  const std::string own = rms_norm_with(""), other = "constexpr const char* kOther = fk::Softmax::kName;\n";
  EXPECT_TRUE(needs_own_class_only(op, own));
  folder_.write("L1/shared.h", other);
  for (const std::string& more :
       {std::string("# include\"shared.h\"\n"), other, std::string("#include \"shared.h\"\n"),
        std::string("namespace mine { using namespace fk; constexpr auto kOther = Softmax::kName; }\n")}) {
    const size_t after_includes = own.find('\n') + 1;
    const std::string text = own.substr(0, after_includes) + more + own.substr(after_includes);
    EXPECT_FALSE(needs_own_class_only(op, text)) << text;
    if (compiled-- <= 0) continue;
    CompileResult result = compile_candidate(folder_.candidate("rms_norm", text), folder_.options());
    EXPECT_FALSE(result.failure.has_value()) << text << result.log;
  }
}

TEST_F(Compile, MissesTheMacro) {
  std::string text = rms_norm_with("");
  Failure failure = failure_of("// FK_CANDIDATE(RMSNorm)\n" + text.substr(0, text.find("FK_CANDIDATE")));
  EXPECT_EQ(failure.verdict, Verdict::kBuildError);
  EXPECT_TRUE(says(failure, "has no FK_CANDIDATE(RMSNorm)")) << failure.sentence << result_.log;
}

TEST_F(Compile, NamesAFunctionThatIsDefinedNowhere) {
  Failure failure = failure_of("void helper(int);\n" + rms_norm_with("helper(3);"));
  EXPECT_EQ(failure.verdict, Verdict::kBuildError);
  EXPECT_TRUE(says(failure, "helper(int)")) << failure.sentence;
}

TEST_F(Compile, SurvivesGiganticOutput) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "#warning " + std::string(4000, 'x') + "\n";
  Failure failure = failure_of(text + "int y = ;\n" + rms_norm_with(""));
  EXPECT_EQ(failure.verdict, Verdict::kBuildError);
  EXPECT_LT(failure.sentence.size(), 1000u);
  EXPECT_LE(result_.log.size(), size_t{1} << 20);
}

TEST_F(Compile, SaysWhatIsMissing) {
  CandidateFile file = folder_.candidate("rms_norm", rms_norm_with(""));
  CompileOptions options = folder_.options();
  options.compiler = "/nowhere/g++";
  CompileResult no_compiler = compile_candidate(file, options);
  ASSERT_TRUE(no_compiler.failure);
  EXPECT_TRUE(says(*no_compiler.failure, "install g++")) << no_compiler.failure->sentence;

  options = folder_.options();
  options.limit_ms = 1;
  CompileResult too_long = compile_candidate(file, options);
  ASSERT_TRUE(too_long.failure);
  EXPECT_TRUE(says(*too_long.failure, "did not compile within")) << too_long.failure->sentence;

  options = folder_.options();
  options.cache_folder = "/proc/fastkernels";
  CompileResult no_cache = compile_candidate(file, options);
  ASSERT_TRUE(no_cache.failure);
  EXPECT_TRUE(says(*no_cache.failure, "FASTKERNELS_HOME")) << no_cache.failure->sentence;

  file.path = folder_.path() + "/L1/silu_and_mul.cpp";
  CompileResult unreadable = compile_candidate(file, folder_.options());
  ASSERT_TRUE(unreadable.failure);
  EXPECT_TRUE(says(*unreadable.failure, "not a file that can be read")) << unreadable.failure->sentence;

  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(folder_.path() + "/cache/candidates")) left.push_back(entry.path());
  EXPECT_TRUE(left.empty()) << left[0];
}

// A compiler that notes when it is called.
class Cache : public testing::Test {
 protected:
  Cache() {
    std::string script = folder_.write("counting", "#!/bin/sh\necho called\nexec g++ \"$@\"\n");
    chmod(script.c_str(), 0755);
    options_ = folder_.options();
    options_.compiler = script;
    folder_.write("L1/helper.h", "inline int helper() { return 1; }\n");
    file_ = folder_.candidate("rms_norm", "#include \"helper.h\"\n" + rms_norm_with("helper();"));
  }

  CompileResult build() {
    CompileResult result = compile_candidate(file_, options_);
    EXPECT_FALSE(result.failure.has_value()) << result.failure->sentence;
    if (result.log.find("called") != std::string::npos) ++calls_;
    return result;
  }
  int calls() const { return calls_; }

  WorkFolder folder_;
  CompileOptions options_;
  CandidateFile file_;
  int calls_ = 0;
};

TEST_F(Cache, SlowFollowsEverythingThatChangesABuild) {
  CompileResult first = build();
  ASSERT_EQ(calls(), 1);
  CompileResult again = build();
  EXPECT_EQ(calls(), 1);
  EXPECT_TRUE(again.from_cache);
  EXPECT_EQ(again.so_path, first.so_path);

  folder_.write("L1/helper.h", "inline int helper() { return 2; }\n");
  CompileResult other_include = build();
  EXPECT_EQ(calls(), 2);
  EXPECT_NE(other_include.so_path, first.so_path);

  options_.cxxflags = {"-DSOMETHING=1"};
  EXPECT_NE(build().so_path, other_include.so_path);
  EXPECT_EQ(calls(), 3);

  options_.cxxflags = {};
  folder_.write("L1/rms_norm.cpp", "// a comment\n#include \"helper.h\"\n" + rms_norm_with("helper();"));
  EXPECT_NE(build().so_path, other_include.so_path);
  EXPECT_EQ(calls(), 4);

  // Back to the first version: still cached.
  folder_.write("L1/rms_norm.cpp", "#include \"helper.h\"\n" + rms_norm_with("helper();"));
  EXPECT_EQ(build().so_path, other_include.so_path);
  EXPECT_EQ(calls(), 4);

  fs::remove(first.so_path);
  fs::remove(other_include.so_path);
  build();
  EXPECT_EQ(calls(), 5);
}

// A full disk or a hand: what is left would crash who loads it.
TEST_F(Cache, ADamagedResultIsBuiltAgain) {
  const CompileResult first = build();
  ASSERT_EQ(calls(), 1);
  const auto size = fs::file_size(first.so_path);
  {
    std::fstream file(first.so_path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(size / 2));
    file << "other bytes";
  }
  const CompileResult second = build();
  EXPECT_EQ(calls(), 2) << "changed";
  EXPECT_FALSE(second.from_cache);
  EXPECT_EQ(second.so_path, first.so_path);
  EXPECT_EQ(build().from_cache, true);
  fs::resize_file(first.so_path, size / 2);
  EXPECT_FALSE(build().from_cache) << "cut";
  fs::resize_file(first.so_path, 0);
  EXPECT_FALSE(build().from_cache) << "empty";
  EXPECT_TRUE(build().from_cache);
}

TEST_F(Cache, RemovesWhatWasBuiltFromAFolder) {
  const std::string path = build().so_path;
  const CompileCache cache(fs::path(path).parent_path().string());
  EXPECT_EQ(cache.remove_builds_from(folder_.path() + "/L"), 0) << "of another folder";
  {
    const CompileResult held = build();
    EXPECT_EQ(cache.remove_builds_from(folder_.path() + "/L1"), 0) << "in use";
    EXPECT_TRUE(fs::exists(path));
  }
  build();
  EXPECT_EQ(cache.remove_builds_from(folder_.path() + "/L1"), 1);
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(build().from_cache);
}

TEST_F(Cache, SlowServesProcessesAndThreadsAtOnce) {
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    pid_t child = fork();
    if (child == 0) _exit(compile_candidate(file_, options_).failure ? 1 : 0);
    children.push_back(child);
  }
  CompileResult a, b;
  std::thread other([&] { a = compile_candidate(file_, options_); });
  b = compile_candidate(file_, options_);
  other.join();
  EXPECT_FALSE(a.failure || b.failure);
  EXPECT_EQ(a.so_path, b.so_path);
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_TRUE(build().from_cache);
}

TEST_F(Cache, SlowIsPrunedByAgeAndSizeButNeverUnderSomebody) {
  auto exists = [](const std::string& path) { return fs::exists(path); };
  CompileResult old = build();
  folder_.write("L1/helper.h", "inline int helper() { return 2; }\n");
  CompileResult recent = build();
  CompileCache cache(fs::path(old.so_path).parent_path().string());
  auto days_ago = [](int days) { return fs::file_time_type::clock::now() - std::chrono::hours(24 * days); };
  fs::last_write_time(old.so_path, days_ago(31));
  std::string left = fs::path(folder_.write("cache/candidates/x.1-1.tmp/candidate.so", "half a build")).parent_path(),
              young = folder_.write("cache/candidates/x.1-2.tmp", "");
  fs::last_write_time(left, days_ago(2));

  cache.prune();
  EXPECT_TRUE(exists(old.so_path)) << "it is in use";
  EXPECT_FALSE(exists(left));
  EXPECT_TRUE(exists(young)) << "somebody may be writing it";
  std::string path = old.so_path;
  old = {};
  cache.prune();
  EXPECT_FALSE(exists(path));
  EXPECT_TRUE(exists(recent.so_path));

  // By size, the least recently used first.
  path = recent.so_path;
  recent = {};
  folder_.write("L1/helper.h", "inline int helper() { return 3; }\n");
  std::string latest = build().so_path;
  fs::last_write_time(path, days_ago(1));
  cache.prune({.bytes = fs::file_size(latest)});
  EXPECT_FALSE(exists(path));
  EXPECT_TRUE(exists(latest));
  CompileResult held = build();
  cache.prune({.bytes = 0});
  EXPECT_TRUE(exists(latest));
  held = {};
  cache.prune({.bytes = 0});
  EXPECT_FALSE(exists(latest));
  EXPECT_FALSE(build().from_cache);
  CompileCache("/nowhere").prune();
}

TEST(SplitFlags, KeepsQuotedBlanks) {
  EXPECT_EQ(split_flags(""), std::vector<std::string>());
  EXPECT_EQ(split_flags(" -O2  '-DX=a b' -I\"c d\""), (std::vector<std::string>{"-O2", "-DX=a b", "-Ic d"}));
}

TEST(SplitFlags, KnowsAnOpenQuote) {
  for (const char* closed : {"", "-O2", "'-DX=a b' \"c\"", "\"it's\"", "'say \"'"})
    EXPECT_TRUE(quotes_closed(closed)) << closed;
  for (const char* open : {"'", "-O2 \"-DX=a b", "'a' 'b", "\"'", "it's"}) EXPECT_FALSE(quotes_closed(open)) << open;
}

}  // namespace
}  // namespace fk
