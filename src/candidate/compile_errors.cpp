#include "candidate/compile_errors.h"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "candidate/operators_header.h"
#include "measure/small_file.h"

namespace fk {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string shortened(std::string text) {
  constexpr size_t kLongest = 300;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + " ...";
  return text;
}

struct FirstError {
  std::string place;  // "rms_norm.cpp:12:5", or empty
  std::string message;
  int errors = 0;
};

// nvcc's front end writes "rms_norm.cu(12)", other compilers write "rms_norm.cu:12".
std::string usual_place(std::string place) {
  size_t open = place.rfind('(');
  if (open == std::string::npos || !place.ends_with(')')) return place;
  std::string line = place.substr(open + 1, place.size() - open - 2);
  if (line.empty() || line.find_first_not_of("0123456789") != std::string::npos) return place;
  return place.substr(0, open) + ":" + line;
}

std::optional<FirstError> first_error(const std::vector<std::string>& lines) {
  std::optional<FirstError> first;
  for (const std::string& line : lines) {
    // Without std::regex, which recurses per character: lines may be huge.
    size_t at = line.find("error: ");
    // The assembler of device code gives no position in the source: "ptxas error : ...", "ptxas fatal : ...".
    if (line.starts_with("ptxas ") || line.starts_with("nvlink ")) {
      size_t colon = line.find(" : ");
      bool fault = line.find(" error ") != std::string::npos || line.find(" fatal ") != std::string::npos;
      if (!fault || colon == std::string::npos) continue;
      if (first)
        ++first->errors;
      else
        first = FirstError{"", line.substr(colon + 3), 1};
      continue;
    }
    if (at == std::string::npos) continue;
    if (first) {
      ++first->errors;
      continue;
    }
    size_t start = line.starts_with("error: ") ? 0 : line.rfind(": ", at == 0 ? 0 : at - 1);
    std::string place = start == std::string::npos || start == 0 ? "" : line.substr(0, start);
    first = FirstError{usual_place(std::move(place)), line.substr(at + 7), 1};
  }
  return first;
}

bool contains_any(const std::string& text, std::initializer_list<std::string_view> parts) {
  for (std::string_view part : parts)
    if (text.find(part) != std::string::npos) return true;
  return false;
}

// Messages of GCC, Clang and nvcc's front end if a class is not a valid candidate.
bool is_wrong_class(const std::string& message, const OperatorInfo& op) {
  return contains_any(message, {"marked 'override'", "abstract class type", "conflicting return type",
                                "has a different return type", "expected class-name", "expected class name",
                                "no class named", "fastkernels:", "Contract'", "declared with \"override\"",
                                "has no member class", "return type is not identical", "class or namespace name"}) ||
         contains_any(message, {fmt::format("no matching function for call to '{0}::{0}(", op.class_name),
                                fmt::format("no matching constructor for initialization of '{}'", op.class_name)});
}

// The text between the quotes that linkers put around a symbol.
std::string symbol_in(const std::string& line, size_t from) {
  size_t begin = line.find_first_of("`'", from);
  if (begin == std::string::npos) return line.substr(from);
  return line.substr(begin + 1, line.rfind('\'') - begin - 1);
}

std::optional<std::string> linker_error(const std::vector<std::string>& lines, const CandidateFile& file) {
  for (const std::string& line : lines) {
    if (file.op != nullptr && line.find("fk_candidate_entry") != std::string::npos &&
        contains_any(line, {"not defined", "undefined symbol", "required symbol"}))
      return fmt::format("{} has no FK_CANDIDATE({}); add it as the last line.", file.path, file.op->class_name);
    for (std::string_view words : {"undefined reference to ", "undefined symbol: "}) {
      size_t at = line.find(words);
      if (at == std::string::npos) continue;
      if (std::string symbol = symbol_in(line, at + words.size()); symbol.starts_with("cublas"))
        return fmt::format("{} uses {}, a function of NVIDIA's libraries; --allow-libraries links them.", file.path,
                           symbol);
      else
        return fmt::format("{} uses {}, which is declared but defined nowhere.", file.path,
                           shortened(symbol_in(line, at + words.size())));
    }
  }
  return std::nullopt;
}

// The file that could not be opened, if a line of the compiler, the assembler or the linker says so.
std::optional<std::string> unopened_file(const std::string& line) {
  constexpr std::string_view kDenied = ": Permission denied", kNotFound = "Error: file not found: ";  // .incbin
  if (size_t at = line.find(kNotFound); at != std::string::npos) return line.substr(at + kNotFound.size());
  size_t end = line.find(kDenied);
  if (end == std::string::npos) return std::nullopt;
  std::string words = line.substr(0, end);
  if (size_t before = words.rfind(": "); before != std::string::npos) words = words.substr(before + 2);
  // "can't open /etc/passwd for reading", "cannot open file '/etc/passwd'"
  size_t begin = words.find('/');
  if (words.find(' ') == std::string::npos || begin == std::string::npos) return words;
  return words.substr(begin, words.find_first_of(" '\"", begin) - begin);
}

std::optional<std::string> walls_error(const std::vector<std::string>& lines, const CandidateFile& file) {
  for (const std::string& line : lines)
    if (std::optional<std::string> unopened = unopened_file(line)) {
      bool placed = line.starts_with(file.path + ":");
      std::string place = placed ? line.substr(0, line.find(": ")) : file.path;
      return fmt::format(
          "{}: {} is not open to it; a candidate is compiled from the system's headers, its own folder and folders "
          "that "
          "--cxxflags names with -I.",
          place, shortened(*unopened));
    }
  return std::nullopt;
}

}  // namespace

Failure explain_failure(const CompilerRun& run, const CandidateFile& file, int limit_ms) {
  auto build_error = [](std::string sentence) { return Failure{Verdict::kBuildError, std::move(sentence)}; };
  if (!run.started)
    return build_error(file.device() == DeviceKind::kCpu
                           ? "The compiler could not be started; install g++, or set CXX to a C++20 compiler."
                           : "nvcc could not be started; install the CUDA toolkit, or set NVCC to its nvcc.");
  if (run.timed_out)
    return build_error(fmt::format("{} did not compile within {} s.", file.path, (limit_ms + 999) / 1000));
  std::vector<std::string> lines = lines_of(run.log);
  if (std::optional<std::string> sentence = walls_error(lines, file)) return build_error(std::move(*sentence));
  // Linker errors also contain "error:" lines, which are less useful.
  if (std::optional<std::string> sentence = linker_error(lines, file)) return build_error(std::move(*sentence));
  if (std::optional<FirstError> error = first_error(lines)) {
    bool own_file = error->place.starts_with(file.path);
    if (file.op != nullptr && is_wrong_class(error->message, *file.op))
      return {Verdict::kSignatureMismatch,
              fmt::format("{}: the class is not what {} asks for; expected is\n{}", own_file ? error->place : file.path,
                          file.op->name, expected_class(*file.op))};
    std::string more = error->errors > 1 ? fmt::format(" (and {} more)", error->errors - 1) : "";
    return build_error(
        fmt::format("{}: {}{}", error->place.empty() ? file.path : error->place, shortened(error->message), more));
  }
  for (const std::string& line : lines)
    if (!trim(line).empty())
      return build_error(fmt::format("{} does not compile: {}", file.path, shortened(std::string(trim(line)))));
  if (run.signal != 0)
    return build_error(fmt::format("{} does not compile: signal {} ended the compiler.", file.path, run.signal));
  return build_error(fmt::format("{} does not compile: the compiler ended with code {} and printed nothing.", file.path,
                                 run.exit_code));
}

}  // namespace fk
