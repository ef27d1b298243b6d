#include "bench/kernels/result_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "core/error.h"

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
  return fmt::format("bench/results/kernels_{}-{:06}.json", text, micro);
}

void write_all(const std::string& path, int flags, std::string_view text) {
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
  if (fd < 0) throw Error("{} cannot be written ({}); name another with --output-json.", path, strerror(errno));
  while (!text.empty()) {
    ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      int error = errno;
      close(fd);
      throw Error("{} could not be written whole ({}).", path, strerror(error));
    }
    text.remove_prefix(static_cast<size_t>(n));
  }
  fsync(fd);
  close(fd);
}

}  // namespace

ResultFile::ResultFile(std::string path) : path_(path.empty() ? default_path() : std::move(path)) {
  fs::path folder = fs::path(path_).parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error)
    throw Error("The folder {} cannot be made ({}); name another file with --output-json.", folder.string(),
                error.message());
}

void ResultFile::append(const Json& result) const { write_all(journal_path(), O_APPEND, result.dump() + "\n"); }

void ResultFile::write(const Json& document, bool finished) const {
  std::string next = path_ + ".new";
  write_all(next, O_TRUNC, dump_json(document) + "\n");
  if (std::rename(next.c_str(), path_.c_str()) != 0) throw Error("{} cannot be replaced ({}).", path_, strerror(errno));
  if (finished) std::remove(journal_path().c_str());
}

std::vector<Json> ResultFile::journal() const {
  std::vector<Json> lines;
  std::ifstream in(journal_path());
  for (std::string line; std::getline(in, line);) {
    Json parsed = Json::parse(line, nullptr, false);
    if (parsed.is_object()) lines.push_back(std::move(parsed));
  }
  return lines;
}

}  // namespace fk
