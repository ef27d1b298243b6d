// Access log: one JSON line for each request that was answered or abandoned.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace fk {

struct AccessRecord {
  std::string client, method, path;
  int status = 0;  // 499: the client left before an answer began
  double duration_ms = 0;
  uint64_t sent_bytes = 0;
  bool client_gone = false;  // before the answer was complete
  // Of requests to a model.
  std::string request_id = {};
  std::optional<int64_t> prompt_tokens = {}, completion_tokens = {};
  std::string finish_reason = {};
};

class AccessLog {
 public:
  // "": none; "-": standard error. Throws Error where the file cannot be opened for appending.
  explicit AccessLog(const std::string& path);
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  void write(const AccessRecord& record);

 private:
  std::FILE* file_ = nullptr;
};

// The line without its end; `unix_ms`: when the answer ended.
std::string access_line(const AccessRecord& record, int64_t unix_ms);

}  // namespace fk
