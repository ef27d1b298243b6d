#include "bench/kernels/result_file.h"

#include <chrono>
#include <ctime>
#include <filesystem>

#include "core/bench_folder.h"
#include "core/error.h"
#include "core/output_file.h"
#include "track/journal.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

std::string default_path() {
  auto now = std::chrono::system_clock::now();
  std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  auto micro = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() % 1000000;
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  return fmt::format("{}/results/kernels_{}-{:06}.json", bench_folder(), text, micro);
}

}  // namespace

ResultFile::ResultFile(std::string path) : path_(path.empty() ? default_path() : std::move(path)) {
  fs::path folder = fs::path(path_).parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error)
    throw Error("The folder {} cannot be made ({}); name another file with --output-json.", folder.string(),
                error.message());
  check_output_path(path_);  // checked now, before anything is measured
  // No journal is written next to a device or a pipe.
  journal_path_ = (is_special_file(path_) ? default_path() : path_) + "l";
}

std::string ResultFile::try_write(const Json& document, bool finished) const {
  try {
    write(document, finished);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

void ResultFile::write(const Json& document, bool finished) const {
  write_file(path_, dump_json(document) + "\n", true);
  if (finished) Journal(journal_path()).remove();
}

std::vector<Json> ResultFile::journal() const { return Journal(journal_path()).lines(); }

}  // namespace fk
