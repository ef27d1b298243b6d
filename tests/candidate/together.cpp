#include "tests/candidate/together.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "tests/candidate/work_folder.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBatch = 12;  // more would leave cores idle at the end

// A file included by a path relative to the candidate, from anywhere.
std::string from_anywhere(const std::string& line, const std::string& path) {
  size_t begin = line.find('"'), end = line.rfind('"');
  if (begin == std::string::npos || end == begin) return line;
  fs::path beside = fs::path(path).parent_path() / line.substr(begin + 1, end - begin - 1);
  return fs::exists(beside) ? fmt::format("#include \"{}\"", fs::weakly_canonical(beside).string()) : line;
}

std::string one_unit(const std::vector<CandidateText>& batch) {
  std::set<std::string> seen;
  std::string includes = "#include <fastkernels/candidate.h>\n", bodies;
  for (size_t i = 0; i < batch.size(); ++i) {
    std::set<std::string> macros = {"FK_CANDIDATE_OF"};
    bodies += fmt::format("#undef FK_CANDIDATE_OF\n#define FK_CANDIDATE_OF {}\n", batch[i].op->name);
    if (i > 0) {  // the first one has the name that the linker asks for
      bodies += fmt::format("#define fk_candidate_entry fk_candidate_entry_{}\n", i);
      macros.insert("fk_candidate_entry");
    }
    bodies += fmt::format("namespace candidate_{} {{  // {}\n", i, batch[i].path);
    // Not for a file that does not exist: nvcc would name it among those that the result depends on.
    if (fs::exists(batch[i].path)) bodies += fmt::format("#line 1 \"{}\"\n", batch[i].path);
    std::istringstream text(batch[i].text);
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with("#include")) {
        if (std::string found = from_anywhere(line, batch[i].path); seen.insert(found).second) includes += found + "\n";
        line.clear();
      } else if (line.starts_with("#define ")) {
        macros.insert(line.substr(8, line.find_first_of(" (", 8) - 8));
      }
      bodies += line + "\n";
    }
    bodies += "}\n";
    for (const std::string& macro : macros) bodies += fmt::format("#undef {}\n", macro);
  }
  return includes + bodies;
}

std::string extension(DeviceKind device) { return device == DeviceKind::kCpu ? ".cpp" : ".cu"; }

// Empty where it compiles.
std::string error_of(const OperatorInfo* op, const std::string& name, const std::string& text, DeviceKind device,
                     CompileOptions options) {
  WorkFolder folder;
  options.cache_folder = folder.options().cache_folder;
  options.cxxflags.emplace_back("-O0");  // none of them runs; of nvcc's work it is the host's part
  CompileResult built = compile_candidate({op, folder.write(name + extension(device), text)}, options);
  return built.failure ? built.failure->sentence + "\n" + built.log : "";
}

std::vector<std::string> errors_of_batch(const std::vector<CandidateText>& batch, DeviceKind device,
                                         const CompileOptions& options) {
  std::string together = error_of(batch.front().op, "together", one_unit(batch), device, options);
  if (together.empty()) return {};
  fmt::print("{} candidates do not compile together, so each is compiled alone: {}\n", batch.size(), together);
  std::vector<std::string> errors;
  for (const CandidateText& one : batch) {
    std::string text;
    std::istringstream lines(one.text);
    for (std::string line; std::getline(lines, line);)
      text += (line.starts_with("#include") ? from_anywhere(line, one.path) : line) + "\n";
    if (std::string error = error_of(one.op, "alone", text, device, options); !error.empty())
      errors.push_back(one.path + ": " + error);
  }
  return errors;
}

}  // namespace

std::vector<std::string> compile_errors(const std::vector<CandidateText>& all, DeviceKind device,
                                        const CompileOptions& options) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::vector<std::string> errors;
  auto work = [&] {
    for (size_t begin = next.fetch_add(kBatch); begin < all.size(); begin = next.fetch_add(kBatch)) {
      auto first = all.begin() + static_cast<std::ptrdiff_t>(begin);
      auto last = first + static_cast<std::ptrdiff_t>(std::min(kBatch, all.size() - begin));
      std::vector<std::string> found = errors_of_batch({first, last}, device, options);
      std::lock_guard lock(mutex);
      errors.insert(errors.end(), found.begin(), found.end());
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  return errors;
}

}  // namespace fk
