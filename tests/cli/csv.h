// A reader of RFC 4180, written from the RFC, as an independent check of our tables.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace fk {

inline std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> records;
  std::vector<std::string> record;
  size_t at = 0;
  while (at < text.size()) {
    std::string field;
    if (text[at] == '"') {
      for (++at;; ++at) {
        if (at >= text.size()) throw std::runtime_error("a quoted field has no end");
        if (text[at] == '"') {
          if (at + 1 >= text.size() || text[at + 1] != '"') break;
          ++at;
        }
        field += text[at];
      }
      ++at;
    } else {
      while (at < text.size() && text[at] != ',' && text[at] != '\r') {
        if (text[at] == '"' || text[at] == '\n') throw std::runtime_error("a bare field holds a quote or a line end");
        field += text[at++];
      }
    }
    record.push_back(field);
    if (text.compare(at, 2, "\r\n") == 0) {
      records.push_back(std::move(record));
      record.clear();
      at += 2;
    } else if (at < text.size() && text[at] == ',') {
      ++at;
      if (text.compare(at, 2, "\r\n") == 0) {
        record.emplace_back();
        records.push_back(std::move(record));
        record.clear();
        at += 2;
      }
    } else {
      throw std::runtime_error("a field is followed by neither a comma nor a line end");
    }
  }
  if (!record.empty()) throw std::runtime_error("the last record has no line end");
  return records;
}

}  // namespace fk
