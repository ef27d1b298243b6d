#include "serve/access_log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/json.h"

namespace fk {

AccessLog::AccessLog(const std::string& path) {
  if (path.empty()) return;
  file_ = path == "-" ? stderr : std::fopen(path.c_str(), "ae");
  if (file_ == nullptr)
    throw Error("The access log '{}' cannot be opened: {}; give another --access-log.", path, std::strerror(errno));
}

AccessLog::~AccessLog() {
  if (file_ != nullptr && file_ != stderr) std::fclose(file_);
}

void AccessLog::write(const AccessRecord& record) {
  if (file_ == nullptr) return;
  auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string line = access_line(record, std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) + "\n";
  // A full disk must not end the server; whole lines, so that a reader sees no half ones.
  static_cast<void>(std::fwrite(line.data(), 1, line.size(), file_));
  std::fflush(file_);
}

std::string access_line(const AccessRecord& record, int64_t unix_ms) {
  std::tm utc = fmt::gmtime(static_cast<std::time_t>(unix_ms / 1000));
  Json json = {{"time", fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", utc, unix_ms % 1000)},
               {"client", record.client},
               {"method", record.method},
               {"path", record.path},
               {"status", record.status},
               {"duration_ms", std::round(record.duration_ms * 1e3) / 1e3},
               {"sent_bytes", record.sent_bytes}};
  if (record.client_gone) json["client_gone"] = true;
  if (!record.request_id.empty()) json["request_id"] = record.request_id;
  if (record.prompt_tokens) json["prompt_tokens"] = *record.prompt_tokens;
  if (record.completion_tokens) json["completion_tokens"] = *record.completion_tokens;
  if (!record.finish_reason.empty()) json["finish_reason"] = record.finish_reason;
  return dump_json(json, -1);
}

}  // namespace fk
