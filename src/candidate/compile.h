// Compiles a candidate's source file into a shared object, once: the result is cached in a folder, keyed by everything
// that can change it. The size of the folder is limited (CacheLimits in compile_cache.h). A .cpp is compiled by the C++
// compiler, a .cu by nvcc for the GPU that is present.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "candidate/folder.h"
#include "candidate/verdict.h"
#include "candidate/walls.h"

namespace fk {

struct CompileOptions {
  std::vector<std::string> cxxflags = {};  // after our own, so that they win
  std::string compiler = {};               // empty: find_compiler(), or find_nvcc() for a .cu
  std::string cache_folder = {};           // empty: default_cache_folder()
  int limit_ms = 60'000;                   // a compiler that takes longer is killed
  std::string cuda_arch = {};              // "90a"; empty: $FASTKERNELS_CUDA_ARCH, or that of the first GPU
  bool allow_libraries = false;            // a .cu is linked with cuBLAS and cuBLASLt
  bool without_operator = false;           // generated functions; CandidateFile::op is nullptr
};

struct CompileResult {
  std::string so_path;                  // empty where it failed
  std::shared_ptr<void> lock;           // keeps it in the cache
  std::optional<Failure> failure;       // kBuildError or kSignatureMismatch
  std::string log;                      // the compiler's output, cut if it is huge
  std::vector<std::string> warnings;    // one per line, also those of a cached build
  std::vector<std::string> command;     // for records: program and flags, without the files
  bool from_cache = false;              // then no compiler ran
  std::vector<Protection> protections;  // sandbox of the compiler, if it ran
  double seconds = 0;
};

// Never throws for errors of the candidate, the compiler or the cache folder: these are a Failure.
CompileResult compile_candidate(const CandidateFile& file, const CompileOptions& options = {});

// $CXX, g++ or clang++, as words; empty where none is installed.
std::vector<std::string> find_compiler();

// $FASTKERNELS_HOME/cache, $XDG_CACHE_HOME/fastkernels or ~/.cache/fastkernels.
std::string default_cache_folder();

// "-O2 -funroll-loops" as words; blanks inside quotes do not split.
std::vector<std::string> split_flags(std::string_view text);
// Whether every quote in it is closed; split_flags cannot handle an open quote.
bool quotes_closed(std::string_view text);

}  // namespace fk
