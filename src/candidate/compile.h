// Compiles a candidate's source file into a shared object, once: the result is kept in a cache folder, keyed by
// everything that can change it. The folder holds no more than CacheLimits says (compile_cache.h). A .cpp goes to the
// C++ compiler, a .cu to nvcc for the GPU that is present.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "candidate/folder.h"
#include "candidate/runner/sandbox.h"
#include "candidate/verdict.h"

namespace fk {

struct CompileOptions {
  std::vector<std::string> cxxflags = {};  // after our own, so that they win
  std::string compiler = {};               // empty: find_compiler(), or find_nvcc() for a .cu
  std::string cache_folder = {};           // empty: default_cache_folder()
  int limit_ms = 60'000;                   // a compiler that takes longer is killed
  std::string cuda_arch = {};              // "90a"; empty: $FASTKERNELS_CUDA_ARCH, or that of the first GPU
  bool allow_libraries = false;            // a .cu is linked with cuBLAS and cuBLASLt
};

struct CompileResult {
  std::string so_path;                  // empty where it failed
  std::shared_ptr<void> lock;           // keeps it in the cache
  std::optional<Failure> failure;       // kBuildError or kSignatureMismatch
  std::string log;                      // all the compiler said; cut where it is gigantic
  std::vector<std::string> warnings;    // a line each, those of an earlier build that is used again too
  std::vector<std::string> command;     // for records: program and flags, without the files
  bool from_cache = false;              // then no compiler ran
  std::vector<Protection> protections;  // walls round the compiler, where one ran
  double seconds = 0;
};

// Never throws for what is wrong with the candidate, the compiler or the cache folder: that is a Failure.
CompileResult compile_candidate(const CandidateFile& file, const CompileOptions& options = {});

// $CXX, g++ or clang++, as words; empty where none is installed.
std::vector<std::string> find_compiler();

// $FASTKERNELS_HOME/cache, $XDG_CACHE_HOME/fastkernels or ~/.cache/fastkernels.
std::string default_cache_folder();

// "-O2 -funroll-loops" as words; blanks inside quotes do not split.
std::vector<std::string> split_flags(std::string_view text);
// Whether every quote in it is closed; what split_flags makes of one that is not, nobody can have meant.
bool quotes_closed(std::string_view text);

}  // namespace fk
