#include "candidate/folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/closest.h"
#include "core/error.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

std::string_view device_word(DeviceKind device) { return device == DeviceKind::kCpu ? "cpu" : "cuda"; }
std::string_view stub_flag(DeviceKind device) { return device == DeviceKind::kCpu ? "" : " --device cuda"; }

std::string level_folder(const std::string& folder, int level) { return fmt::format("{}/L{}", folder, level); }

CandidateFile checked(const fs::path& path, int level) {
  std::string name = path.stem().string();
  const OperatorInfo* op = Registry::instance().find(name);
  if (op == nullptr) {
    std::vector<std::string> names;
    for (const OperatorInfo* known : Registry::instance().operators()) names.emplace_back(known->name);
    throw Error("{} is named after no operator{} `fastkernels list` shows them all.", path.string(),
                did_you_mean(name, names));
  }
  if (op->level != level)
    throw Error("{} is in the folder of level {}, but {} is an operator of level {}; move it to L{}.", path.string(),
                level, name, op->level, op->level);
  return {op, path.string()};
}

}  // namespace

std::string candidate_folder() {
  const char* folder = std::getenv("FASTKERNELS_CANDIDATE_DIR");
  return folder != nullptr && *folder != '\0' ? folder : "tasks/candidate";
}

std::string_view candidate_suffix(DeviceKind device) { return device == DeviceKind::kCpu ? ".cpp" : ".cu"; }

std::vector<CandidateFile> find_candidates(const std::string& folder, DeviceKind device) {
  std::vector<CandidateFile> found;
  for (int level = 1; level <= 4; ++level) {
    std::vector<fs::path> sources;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(level_folder(folder, level), error)) {
      // Headers and notes may be beside the sources, and editors leave hidden files.
      const fs::path& path = entry.path();
      bool source = path.extension() == ".cpp" || path.extension() == ".cu";
      std::error_code gone;
      if (source && !path.filename().string().starts_with(".") && !entry.is_directory(gone)) sources.push_back(path);
    }
    if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
      throw Error(
          "The candidates in {} cannot be read ({}); change its permissions, or name another folder with "
          "FASTKERNELS_CANDIDATE_DIR.",
          level_folder(folder, level), error.message());
    std::sort(sources.begin(), sources.end());
    for (const fs::path& path : sources)
      if (CandidateFile file = checked(path, level); file.device() == device) found.push_back(std::move(file));
  }
  return found;
}

CandidateFile find_candidate(const std::string& folder, const OperatorInfo& op, DeviceKind device) {
  fs::path path = fs::path(level_folder(folder, op.level)) / fmt::format("{}{}", op.name, candidate_suffix(device));
  std::error_code error;
  if (fs::exists(path, error)) return {&op, path.string()};
  DeviceKind other = device == DeviceKind::kCpu ? DeviceKind::kCuda : DeviceKind::kCpu;
  if (fs::path elsewhere = fs::path(path).replace_extension(candidate_suffix(other)); fs::exists(elsewhere, error))
    throw Error("{} is a candidate for {}; use --device {}, or write {}: `fastkernels create-stubs{} --target {}`.",
                elsewhere.string(), device_word(other), device_word(other), path.string(), stub_flag(device), op.name);
  throw Error("There is no candidate for {} ({}); `fastkernels create-stubs{} --target {}` writes one to start from.",
              op.name, path.string(), stub_flag(device), op.name);
}

std::string no_candidates_sentence(const std::string& folder, DeviceKind device) {
  return fmt::format(
      "There is no candidate under {}{}; `fastkernels create-stubs{} --target rms_norm` writes one to start from.",
      folder, device == DeviceKind::kCpu ? "" : " for CUDA", stub_flag(device));
}

}  // namespace fk
