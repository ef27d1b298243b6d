#include "candidate/toolchain.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "candidate/compiler_walls.h"
#include "core/device_runtime.h"
#include "core/environment_variable.h"
#include "measure/child_output.h"
#include "measure/small_file.h"

namespace fk {
namespace {

// The flags of the baselines (cmake/compiler.cmake), but for this CPU, and with line tables, so that a fault can name
// the source line. Line tables do not change the code.
constexpr std::string_view kCppFlags[] = {"-std=c++20",
                                          "-O3",
                                          "-march=native",
                                          "-ffp-contract=fast",
                                          "-fopenmp-simd",
                                          "-fno-math-errno",
                                          "-fno-trapping-math",
                                          "-fPIC",
                                          "-shared",
                                          "-fvisibility=hidden",
                                          "-g1"};
// Errors at build time rather than at load, with messages that can be parsed.
constexpr std::string_view kCppChecks[] = {
    "-Wall", "-Wextra", "-Wno-unused-parameter", "-fmax-errors=20", "-fdiagnostics-color=never", "-Wl,-z,defs"};
constexpr std::string_view kNeedsEntry = "-Wl,--require-defined=fk_candidate_entry";

// The flags of the baselines (cmake/cuda.cmake), with line information for profilers.
constexpr std::string_view kCudaFlags[] = {
    "-std=c++20", "-O3",   "-lineinfo",      "--expt-relaxed-constexpr",
    "-shared",    "-x=cu", "-cudart=static", "-Xcompiler=-fPIC,-fvisibility=hidden,-fdiagnostics-color=never"};
constexpr std::string_view kCudaChecks[] = {"-Xlinker=-z", "-Xlinker=defs"};
constexpr std::string_view kCudaNeedsEntry = "-Xlinker=--require-defined=fk_candidate_entry";
constexpr std::string_view kCudaLibraries[] = {"-Xlinker=--as-needed", "-lcublasLt", "-lcublas"};

// What -march=native means here.
std::string cpu_identity() {
  std::string identity;
  std::string all = small_file("/proc/cpuinfo").value_or("");
  std::string_view rest(all);
  rest = rest.substr(0, rest.find("\n\n"));  // the entry of the first core
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    for (std::string_view key : {"vendor_id", "cpu family", "model", "flags", "Features", "CPU "})
      if (line.starts_with(key)) identity += std::string(line) + "\n";
  }
  return identity;
}

Toolchain missing(std::string sentence) {
  Toolchain none;
  none.missing = Failure{Verdict::kBuildError, std::move(sentence)};
  return none;
}

std::string open_quote(std::string_view variable) {
  return fmt::format("{} opens a quote that it does not close; close it, or unset {}.", variable, variable);
}

std::string beyond_walls(const std::string& program, std::string_view variable) {
  return fmt::format(
      "{} needs the network or files of its own, and candidates are compiled without; set {} to the compiler itself.",
      program, variable);
}

std::string no_such_program(const std::string& program, std::string_view advice) {
  return fmt::format("There is no program '{}'; {}.", program, advice);
}

Toolchain cpp_toolchain(const CompileOptions& options) {
  Toolchain chain;
  if (options.compiler.empty() && !quotes_closed(environment_variable("CXX"))) return missing(open_quote("CXX"));
  chain.compiler = options.compiler.empty() ? find_compiler() : split_flags(options.compiler);
  if (chain.compiler.empty()) return missing("There is no C++ compiler; install g++, or set CXX to a C++20 compiler.");
  if (std::string program = needs_more_than_walls_allow(chain.compiler); !program.empty())
    return missing(beyond_walls(program, "CXX"));
  if (!find_program(chain.compiler.front()))
    return missing(no_such_program(chain.compiler.front(), "install g++, or set CXX to a C++20 compiler"));
  chain.flags.assign(std::begin(kCppFlags), std::end(kCppFlags));
  chain.checks.assign(std::begin(kCppChecks), std::end(kCppChecks));
  if (!options.without_operator) chain.checks.emplace_back(kNeedsEntry);
  chain.target = cpu_identity();
  return chain;
}

Toolchain cuda_toolchain(const CompileOptions& options) {
  Toolchain chain;
  if (options.compiler.empty() && !quotes_closed(environment_variable("NVCC"))) return missing(open_quote("NVCC"));
  chain.compiler = options.compiler.empty() ? find_nvcc() : split_flags(options.compiler);
  if (chain.compiler.empty())
    return missing("There is no CUDA compiler; install the CUDA toolkit, or set NVCC to its nvcc.");
  if (std::string program = needs_more_than_walls_allow(chain.compiler); !program.empty())
    return missing(beyond_walls(program, "NVCC"));
  std::string named = options.cuda_arch.empty() ? environment_variable("FASTKERNELS_CUDA_ARCH") : options.cuda_arch;
  if (named.empty()) {
    constexpr Device kFirst{DeviceKind::kCuda, 0};
    if (std::string why = device_missing(kFirst); !why.empty())
      return missing(
          fmt::format("There is no GPU to compile for ({}); set FASTKERNELS_CUDA_ARCH, to 90a for instance.", why));
    named = device_runtime(kFirst).facts().architecture;
  }
  std::string arch = cuda_architecture(named);
  if (arch.empty())
    return missing(
        fmt::format("'{}' is no CUDA architecture; set FASTKERNELS_CUDA_ARCH to one like 80 or 90a.", named));
  chain.flags.assign(std::begin(kCudaFlags), std::end(kCudaFlags));
  chain.flags.push_back(fmt::format("-gencode=arch=compute_{0},code=sm_{0}", arch));
  if (options.allow_libraries) {
    chain.flags.insert(chain.flags.end(), std::begin(kCudaLibraries), std::end(kCudaLibraries));
    // They are beside nvcc, where the loader may not search.
    std::error_code error;
    std::filesystem::path nvcc =
        std::filesystem::canonical(find_program(chain.compiler.front()).value_or(chain.compiler.front()), error);
    if (!error) chain.flags.push_back("-Xlinker=-rpath=" + (nvcc.parent_path().parent_path() / "lib64").string());
  }
  if (!find_program(chain.compiler.front()))
    return missing(no_such_program(chain.compiler.front(), "install the CUDA toolkit, or set NVCC to its nvcc"));
  chain.checks.assign(std::begin(kCudaChecks), std::end(kCudaChecks));
  if (!options.without_operator) chain.checks.emplace_back(kCudaNeedsEntry);
  chain.target = arch;
  return chain;
}

}  // namespace

std::vector<std::string> find_compiler() {
  if (std::vector<std::string> words = split_flags(environment_variable("CXX")); !words.empty()) return words;
  for (const char* name : {"g++", "clang++"})
    if (find_program(name)) return {name};
  return {};
}

std::vector<std::string> find_nvcc() {
  if (std::vector<std::string> words = split_flags(environment_variable("NVCC")); !words.empty()) return words;
  if (find_program("nvcc")) return {"nvcc"};
  for (const std::string& home : {environment_variable("CUDA_HOME"), std::string("/usr/local/cuda")})
    if (!home.empty() && access((home + "/bin/nvcc").c_str(), X_OK) == 0) return {home + "/bin/nvcc"};
  return {};
}

std::string cuda_architecture(std::string_view text) {
  if (text.starts_with("sm_")) text.remove_prefix(3);
  std::string number;
  for (char c : text)
    if (c != '.') number += c;
  std::string digits = number.substr(0, number.find_first_not_of("0123456789"));
  std::string suffix = number.substr(digits.size());
  if (digits.size() < 2 || digits.size() > 3 || (!suffix.empty() && suffix != "a" && suffix != "f")) return {};
  // From 9.0 on each chip has specific instructions, wgmma for instance, which need the suffix "a".
  if (suffix.empty() && std::stoi(digits) >= 90) suffix = "a";
  return digits + suffix;
}

Toolchain toolchain_for(DeviceKind device, const CompileOptions& options) {
  return device == DeviceKind::kCpu ? cpp_toolchain(options) : cuda_toolchain(options);
}

}  // namespace fk
