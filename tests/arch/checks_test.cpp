// Each check reports a planted violation, and nothing in a tree without one.
#include "tests/arch/checks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace fk::arch {
namespace {

namespace fs = std::filesystem;

class PlantedTree : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "fk_arch_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path, std::ios::binary) << text;
  }

  fs::path root_;
};

using Layers = PlantedTree;
using Lengths = PlantedTree;
using Headers = PlantedTree;
using OwnHeader = PlantedTree;
using Definitions = PlantedTree;
using SlowHeaders = PlantedTree;
using StdIncludes = PlantedTree;
using Words = PlantedTree;
using Documents = PlantedTree;
using Binaries = PlantedTree;

TEST_F(Layers, AcceptWhatPointsDown) {
  write("src/core/a.h", "#include <vector>\n#include \"core/b.h\"\n");
  write("src/ops/l1/x.cpp", "#include \"ops/contract.h\"\n#include \"core/a.h\"\n");
  write("src/backend/cpu/l1/x.cpp", "#include \"backend/cpu/simd.h\"\n#include \"ops/l1/x.h\"\n");
  write("src/backend/cuda/l1/x.cu", "#include <cuda_runtime.h>\n#include \"backend/cuda/device.cuh\"\n");
  write("src/cli/main.cpp", "#include \"bench/ttft/run.h\"\n#include \"CLI/CLI.hpp\"  // not ours\n");
  EXPECT_EQ(to_string(check_layers(root_)),
            "src/cli/main.cpp:2: includes \"CLI/CLI.hpp\", which is not a path from the root of src/\n");
}

TEST_F(Layers, ReportWhatPointsUpOrSideways) {
  write("src/core/a.h", "// a\n#include \"ops/contract.h\"\n");
  write("src/measure/t.cpp", "  #  include \"track/store.h\"\n");
  EXPECT_EQ(to_string(check_layers(root_)),
            "src/core/a.h:2: layer 0 (core) includes \"ops/contract.h\" of layer 1\n"
            "src/measure/t.cpp:1: layer 2 (measure) includes \"track/store.h\" of layer 2\n");
}

TEST_F(Layers, ReportUsesOfTheBackendFromOutside) {
  write("src/engine/a.cpp", "#include \"backend/cpu/simd.h\"\n");
  write("src/backend/cpu/b.cpp", "#include \"backend/cuda/device.h\"\n");
  EXPECT_EQ(to_string(check_layers(root_)),
            "src/backend/cpu/b.cpp:1: includes \"backend/cuda/device.h\"; a CPU build has no src/backend/cuda\n"
            "src/engine/a.cpp:1: includes \"backend/cpu/simd.h\"; implementations are found through the registry\n");
}

TEST_F(Layers, ReportCudaOutsideItsFolder) {
  write("src/backend/cpu/a.cpp", "#include <cuda_bf16.h>\n");
  write("src/measure/b.h", "#include <cublasLt.h>\n");
  write("src/measure/c.cu", "");
  EXPECT_EQ(to_string(check_layers(root_)),
            "src/backend/cpu/a.cpp:1: includes CUDA's cuda_bf16.h outside src/backend/cuda\n"
            "src/measure/b.h:1: includes CUDA's cublasLt.h outside src/backend/cuda\n"
            "src/measure/c.cu: is CUDA outside src/backend/cuda\n");
}

TEST_F(Layers, ReportFoldersWithoutALayerAndRelativeIncludes) {
  write("src/utils/a.h", "");
  write("src/stray.h", "");
  write("src/core/b.cpp", "#include \"b.h\"\n#include \"../ops/x.h\"\n");
  EXPECT_EQ(to_string(check_layers(root_)),
            "src/core/b.cpp:1: includes \"b.h\", which is not a path from the root of src/\n"
            "src/core/b.cpp:2: includes \"../ops/x.h\", which is not a path from the root of src/\n"
            "src/stray.h: is in no folder of src/ that has a layer\n"
            "src/utils/a.h: is in no folder of src/ that has a layer\n");
}

TEST_F(Lengths, ReportTheFirstLineTooMany) {
  std::string lines;
  for (int i = 0; i < 600; ++i) lines += "x\n";
  write("src/core/ok.cpp", lines);
  write("src/core/long.cpp", lines + "x\n");
  write("tools/long.py", lines + "x");
  write("tests/CMakeLists.txt", lines + "x\n");
  write("tests/data/table.json", lines + lines);  // data, not written by hand
  write("build/long.cpp", lines + lines);
  EXPECT_EQ(to_string(check_file_lengths(root_)),
            "src/core/long.cpp: has 601 lines; 600 is the most, 250 the aim\n"
            "tests/CMakeLists.txt: has 601 lines; 600 is the most, 250 the aim\n"
            "tools/long.py: has 601 lines; 600 is the most, 250 the aim\n");
}

TEST_F(Headers, ReportAMissingPurposeAndAMissingPragma) {
  write("src/core/ok.h", "// What this is.\n#pragma once\n");
  write("src/core/mute.h", "#pragma once\n");
  write("src/core/twice.h", "// What this is.\n");
  write("tests/arch/empty.h", "");
  EXPECT_EQ(to_string(check_headers(root_)),
            "src/core/mute.h:1: does not say on its first line what it is for\n"
            "src/core/twice.h: has no #pragma once\n"
            "tests/arch/empty.h:1: does not say on its first line what it is for\n"
            "tests/arch/empty.h: has no #pragma once\n");
}

TEST_F(OwnHeader, MustComeFirst) {
  write("src/core/a.h", "");
  write("src/core/a.cpp", "// a\n#include \"core/a.h\"\n#include <vector>\n");
  write("src/core/b.h", "");
  write("src/core/b.cpp", "#include <vector>\n#include \"core/b.h\"\n");
  write("src/core/alone.cpp", "#include <vector>\n");
  EXPECT_EQ(to_string(check_own_header_first(root_)), "src/core/b.cpp: does not include its own \"core/b.h\" first\n");
}

TEST_F(Definitions, OfOneNameInTwoFilesAreReported) {
  write("src/core/a.h", "namespace fk {\nstruct Options {\n  int a;\n};\nenum class Access : int { kRead };\n}\n");
  write("src/web/b.cpp", "namespace fk {\nclass Access final : public Base<int> {\n};\n}\n");
  write("src/web/c.h", "namespace fk {\n\ntemplate <class T>\nstruct [[nodiscard]] Options {};\n}\n");
  EXPECT_EQ(to_string(check_one_definition(root_)),
            "src/web/b.cpp:2: defines fk::Access, as src/core/a.h does\n"
            "src/web/c.h:4: defines fk::Options, as src/core/a.h does\n");
}

TEST_F(Definitions, MayRepeatNamesWhereTheyAreOthers) {
  write("src/core/a.h", "namespace fk {\nstruct Options {};\nstruct Options;\n}\n");
  write("src/core/b.cpp", "namespace fk {\nnamespace {\nstruct Options {};\n}\n}  // namespace fk\n");
  write("src/core/c.h", "namespace fk::other {\nstruct Options {};\n}\n");
  write("src/core/d.cpp",
        "namespace fk {\nclass A {\n  struct Options {};\n};\nvoid f() { struct Options { int a; }; }\n"
        "// struct Options {\nauto text = R\"(struct Options {)\";\nchar c = '{';\nint n = 1'000;\n"
        "struct Options make() { return {}; }\ntemplate <> struct Options<int> {};\n}\n");
  EXPECT_EQ(to_string(check_one_definition(root_)), "");
}

TEST_F(SlowHeaders, AreReportedOutsideTheirFile) {
  write("src/cli/command_line.cpp", "#include <CLI/CLI.hpp>\n");
  write("src/cli/verb.h", "#include <string>\n#include <CLI/CLI.hpp>\n");
  EXPECT_EQ(
      to_string(check_slow_headers(root_)),
      "src/cli/verb.h:2: includes CLI/CLI.hpp, which takes seconds to parse; only src/cli/command_line.cpp may\n");
}

TEST_F(StdIncludes, AreAskedForByName) {
  write("src/core/a.h", "#include <vector>\n");
  write("src/core/b.cpp",
        "#include \"core/a.h\"\nstd::vector<int> v;\nstd::map<int, int> m;\nstd::multimap<int, int> n;\n");
  write("tests/core/c_test.cpp", "#include \"tests/core/c.h\"\nstd::string s = std::to_string(1);  // std::set\n");
  write("tests/core/c.h", "#include <string>\n");
  EXPECT_EQ(to_string(check_std_includes(root_)), "src/core/b.cpp:3: uses std::map without <map>\n");
}

TEST_F(Words, ReportMarksOfUnfinishedWork) {
  write("src/core/a.cpp", "int todo;  // a name, not a mark\n// TODO: later\n");
  write("src/core/b.cpp", "auto s = \"XXXL\";\n/* FIXME */\n");
  EXPECT_EQ(to_string(check_words(root_)), "src/core/a.cpp:2: says TODO\nsrc/core/b.cpp:2: says FIXME\n");
}

TEST_F(Documents, AcceptPathsThatExist) {
  write("src/core/tensor.h", "");
  write("src/core/tensor.cpp", "");
  write("docs/guide.md",
        "See [core](../src/core/tensor.h#views), [web](https://x.org/src/none.h) and [here](#part).\n");
  write(
      "README.md",
      "`src/core/tensor.h:12`, `core/tensor.h`, `tensor.h`, `src/core/tensor.{h,cpp}` and `docs/*.md`;\n"
      "`src/core/{name}.h`, `src/core/<name>.cpp`, `src/core/...`; `/etc/src/none.h`; not code: src/none.h\n"
      "`config.json`, `meta-llama/Llama-3.2-1B`, `a/b`, `x = src/core/tensor.h`.\n"
      "```\nbuild/cpu-release/fastkernels --log src/core\n./src/core/tensor.h\ntasks/candidate/L1/rms_norm.cu\n```\n");
  EXPECT_EQ(to_string(check_documented_paths(root_)), "");
}

TEST_F(Documents, ReportPathsThatDoNotExist) {
  write("src/core/tensor.h", "");
  write("docs/guide.md", "[gone](../src/core/gone.h)\n[from the wrong folder](src/core/tensor.h)\n");
  write("README.md",
        "`src/core/gone.h` and `core/gone.h`\n`gone.h`\n`src/core/tensor.{h,cpp}`\n`src/none/{name}.h`\n"
        "```\ncat tests/none.cpp\n```\n");
  EXPECT_EQ(to_string(check_documented_paths(root_)),
            "README.md:1: names src/core/gone.h, which does not exist\n"
            "README.md:1: names core/gone.h, which does not exist\n"
            "README.md:2: names gone.h, which does not exist\n"
            "README.md:3: names src/core/tensor.cpp, which does not exist\n"
            "README.md:4: names src/none/{name}.h, which does not exist\n"
            "README.md:6: names tests/none.cpp, which does not exist\n"
            "docs/guide.md:1: names ../src/core/gone.h, which does not exist\n"
            "docs/guide.md:2: names src/core/tensor.h, which does not exist\n");
}

TEST_F(Binaries, AreReportedByNameAndByContent) {
  write("a.cpp", "int x;\n");
  write("lib.so", "text");
  write("data.txt", std::string("a\0b", 3));
  EXPECT_EQ(to_string(check_binaries(root_, {"a.cpp", "lib.so", "data.txt"})),
            "lib.so: is a built or packed file; git holds sources only\n"
            "data.txt: is binary; git holds text only\n");
}

TEST_F(Binaries, TrackedFilesAreThoseGitKnows) {
  EXPECT_TRUE(tracked_files(root_).empty());
  write("a b.txt", "");
  write("new.txt", "");
  std::string in_root = "cd '" + root_.string() + "' && ";
  if (std::system((in_root + "git init -q . 2>/dev/null && git add 'a b.txt'").c_str()) != 0)
    GTEST_SKIP() << "no git here";
  EXPECT_EQ(tracked_files(root_), std::vector<std::string>{"a b.txt"});
}

}  // namespace
}  // namespace fk::arch
