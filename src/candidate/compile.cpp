#include "candidate/compile.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <fastkernels/kernel_abi.h>
#include "candidate/compile_cache.h"
#include "candidate/compile_errors.h"
#include "candidate/compile_warnings.h"
#include "candidate/compiler_walls.h"
#include "candidate/operators_header.h"
#include "candidate/toolchain.h"
#include "core/environment_variable.h"
#include "core/replace_all.h"
#include "core/undo_at_end.h"
#include "measure/child_output.h"
#include "measure/small_file.h"
#include "measure/timer.h"

namespace fk {

extern const std::string_view kKernelAbiHeader;
extern const std::string_view kCandidateHeader;

namespace {

namespace fs = std::filesystem;

// Identifies a program of the compiler's command: another version has another size or date.
std::string program_identity(const std::string& word) {
  std::string path = word.find('/') == std::string::npos ? find_program(word).value_or(word) : word;
  std::error_code error;
  fs::path real = fs::canonical(path, error);
  struct stat info;
  if (error || stat(real.c_str(), &info) != 0) return word;
  return fmt::format("{} {} {}.{}", real.string(), info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

std::string key_of(const std::string& source, const std::string& text, const std::string& headers,
                   const Toolchain& chain, const CompileResult& result, const CompileOptions& options) {
  Fingerprint key;
  key.add("behind walls").add(source).add(text).add(headers).add(fmt::format("{}", FK_ABI_VERSION)).add(chain.target);
  for (const std::string& word : chain.compiler) key.add(program_identity(word));
  for (const std::string& word : result.command) key.add(word);
  if (!options.cxxflags.empty()) key.add(fs::current_path().string());  // they may name files relative to it
  for (const char* name : {"CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH",
                           "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"})
    key.add(environment_variable(name));
  return key.hex();
}

// The headers a candidate includes, in a folder named after their text, so that versions do not mix.
std::string headers_folder(const std::string& cache_folder, const std::string& operators) {
  std::string version = Fingerprint().add(kKernelAbiHeader).add(kCandidateHeader).add(operators).hex();
  std::string folder = fmt::format("{}/include-{}", cache_folder, version), inner = folder + "/fastkernels";
  if (access((inner + "/operators.h").c_str(), R_OK) == 0) return folder;  // written last
  std::error_code error;
  fs::create_directories(inner, error);
  bool written = !error && write_whole(inner + "/kernel_abi.h", kKernelAbiHeader) &&
                 write_whole(inner + "/candidate.h", kCandidateHeader) &&
                 write_whole(inner + "/operators.h", operators);
  return written ? folder : "";
}

// The compiler's output of a cached build.
std::string warnings_file(const CompileCache& cache, const std::string& key) {
  return fmt::format("{}/{}.warnings", cache.folder(), key);
}

Failure cache_failure(const std::string& folder) {
  return {Verdict::kBuildError,
          fmt::format("The cache folder {} cannot be written; set FASTKERNELS_HOME to a folder that can.", folder)};
}

}  // namespace

std::string default_cache_folder() {
  if (std::string home = environment_variable("FASTKERNELS_HOME"); !home.empty()) return home + "/cache";
  if (std::string xdg = environment_variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/fastkernels";
  std::string home = environment_variable("HOME");
  return (home.empty() ? fmt::format("/tmp/fastkernels-{}", getuid()) : home) + "/.cache/fastkernels";
}

std::vector<std::string> split_flags(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;
  char quote = '\0';
  for (char c : text) {
    if (quote != '\0') {
      if (c == quote)
        quote = '\0';
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      inside = true;
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      if (inside) words.push_back(std::exchange(word, {}));
      inside = false;
    } else {
      word += c;
      inside = true;
    }
  }
  if (inside) words.push_back(word);
  return words;
}

bool quotes_closed(std::string_view text) {
  char quote = '\0';
  for (char c : text)
    if (quote == '\0' ? c == '\'' || c == '"' : c == quote) quote = quote == '\0' ? c : '\0';
  return quote == '\0';
}

CompileResult compile_candidate(const CandidateFile& file, const CompileOptions& options) {
  Stopwatch watch;
  CompileResult result;
  auto fail = [&](Failure failure) {
    result.failure = std::move(failure);
    result.seconds = watch.elapsed_s();
    return result;
  };
  std::optional<std::string> text = file_text(file.path);
  if (!text)
    return fail({Verdict::kBuildError,
                 fmt::format("{} is not a file that can be read; make it one, or change its permissions.", file.path)});
  Toolchain chain = toolchain_for(file.device(), options);
  if (chain.missing) return fail(*chain.missing);

  result.command = chain.compiler;
  result.command.insert(result.command.end(), chain.flags.begin(), chain.flags.end());
  if (file.op != nullptr) result.command.push_back(fmt::format("-DFK_CANDIDATE_OF={}", file.op->name));
  // Flags of the user may include more.
  if (file.op != nullptr && options.cxxflags.empty() && needs_own_class_only(*file.op, *text))
    result.command.push_back("-DFK_OWN_OPERATOR_ONLY");
  result.command.insert(result.command.end(), options.cxxflags.begin(), options.cxxflags.end());

  std::string source = fs::absolute(file.path).lexically_normal().string();
  std::string root = options.cache_folder.empty() ? default_cache_folder() : options.cache_folder;
  CompileCache cache(root + "/candidates");
  std::string operators = operators_header();
  std::string headers = fmt::format("{}{}{}", kKernelAbiHeader, kCandidateHeader, operators);
  std::string key = key_of(source, *text, headers, chain, result, options);
  if (std::optional<HeldBuild> known = cache.find(key)) {
    result.so_path = known->path;
    result.lock = known->lock;
    result.from_cache = true;
    result.warnings = warnings_in(file_text(warnings_file(cache, key)).value_or(""));
    result.seconds = watch.elapsed_s();
    return result;
  }

  std::error_code error;
  fs::create_directories(cache.folder(), error);
  std::string include = error ? "" : headers_folder(root, operators);
  if (include.empty()) return fail(cache_failure(root));
  // A folder for this build only; the compiler may write nowhere else.
  std::string work = temporary_name(cache.folder() + "/" + key), built = work + "/candidate.so",
              rule = work + "/rule.d";
  UndoAtEnd folder;
  folder.make([&] { fs::create_directory(work, error); },
              [work] {
                std::error_code gone;
                fs::remove_all(work, gone);
              });
  if (error) return fail(cache_failure(root));
  std::vector<std::string> command = result.command;
  command.insert(command.end(), chain.checks.begin(), chain.checks.end());
  for (const std::string& word : {std::string("-I"), include, std::string("-MD"), std::string("-MF"), rule,
                                  std::string("-MT"), std::string("built"), std::string("-o"), built, source})
    command.push_back(word);
  std::vector<std::string> readable = readable_by_compiler(chain.compiler, options.cxxflags, source, root);
  readable.push_back(include);
  CompilerRun run = run_compiler(command, options.limit_ms, CompilerWalls{std::move(readable), work});
  result.protections = run.protections;
  replace_all(run.log, source, file.path);
  result.log = run.log;
  std::vector<std::string> inputs = files_in_rule(file_text(rule).value_or(""));
  std::optional<HeldBuild> stored;
  bool changed = file_text(source) != text;
  if (run.succeeded() && !changed) stored = cache.store(key, built, inputs);
  folder.undo();
  if (!run.succeeded()) return fail(explain_failure(run, file, options.limit_ms));
  if (changed)
    return fail({Verdict::kBuildError, fmt::format("{} changed while it was compiled; run it again.", file.path)});
  if (!stored) return fail(cache_failure(root));
  result.so_path = stored->path;
  result.lock = stored->lock;
  result.warnings = warnings_in(run.log);
  if (result.warnings.empty())
    fs::remove(warnings_file(cache, key), error);
  else
    write_whole(warnings_file(cache, key), run.log);
  cache.prune();
  result.seconds = watch.elapsed_s();
  return result;
}

}  // namespace fk
