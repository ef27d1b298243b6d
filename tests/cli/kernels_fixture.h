// A candidate folder, a home and a result file of its own for tests that run `kernels`.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/json.h"
#include "tests/cli/program.h"

namespace fk {

namespace fs = std::filesystem;

// A candidate of silu_and_mul that does `body` for element i of row t, with gate and up at hand.
inline std::string silu_candidate(const std::string& body) {
  return R"(#include <fastkernels/candidate.h>
#include <math.h>
class SiluAndMul : public fk::SiluAndMul {
 public:
  using fk::SiluAndMul::SiluAndMul;
  void forward(fk::Context&, fk::View x, fk::View out) override {
    fk::with_float(x.dtype(), [&]<class T>(T) {
      int64_t D = out.size(1);
      for (int64_t t = 0; t < x.size(0); ++t)
        for (int64_t i = 0; i < D; ++i) {
          float gate = x.row<T>(t)[i], up = x.row<T>(t)[D + i];
)" + body +
         R"(
        }
    });
  }
};
FK_CANDIDATE(SiluAndMul)
)";
}

// A body that is off by one in the last element of a row.
inline constexpr const char* kWrongSilu = "out.row<T>(t)[i] = T(gate / (1 + expf(-gate)) * up + (i == D - 1 ? 1 : 0));";

class KernelsVerb : public testing::Test {
 protected:
  KernelsVerb() {
    std::string pattern = (fs::temp_directory_path() / "fastkernels-test-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    setenv("FASTKERNELS_CANDIDATE_DIR", (folder_ / "candidate").c_str(), 1);
    setenv("FASTKERNELS_HOME", (folder_ / "home").c_str(), 1);
  }
  ~KernelsVerb() override {
    unsetenv("FASTKERNELS_CANDIDATE_DIR");
    unsetenv("FASTKERNELS_HOME");
    fs::remove_all(folder_);
  }

  std::string result_path() const { return folder_ / "result.json"; }
  Json result() const { return parse_json_file(result_path()); }

  // With an independent JSON schema validator; without one installed, nothing is checked.
  void expect_schema() const {
    if (system("/usr/bin/python3 -c 'import jsonschema' 2>/dev/null") != 0) return;
    std::string check = "import json,jsonschema;jsonschema.Draft202012Validator(json.load(open('" FK_SOURCE_DIR
                        "/docs/kernels.schema.json'))).validate(json.load(open('" +
                        result_path() + "')))";
    EXPECT_EQ(system(("/usr/bin/python3 -c \"" + check + "\"").c_str()), 0);
  }

  // Few pairs: the command is tested, not the statistics.
  Outcome kernels(const Arguments& more, const Arguments& size = {"--num-runs", "10", "--launches", "2"}) const {
    Arguments arguments = {"kernels", "--model", "tiny-llama", "--threads", "1", "--output-json", result_path()};
    arguments.insert(arguments.end(), size.begin(), size.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }
  void write(const std::string& name, const std::string& text) const {
    fs::path path = folder_ / "candidate" / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void write_silu(const std::string& body) const { write("L1/silu_and_mul.cpp", silu_candidate(body)); }

  fs::path folder_;
};

inline constexpr const char* kRight = "out.row<T>(t)[i] = T(gate / (1 + expf(-gate)) * up);";

}  // namespace fk
