#include "web/escape.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace fk {
namespace {

constexpr std::array<std::pair<char, std::string_view>, 5> kEntities = {
    {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}}};

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    std::string_view entity;
    for (auto [plain, escaped] : kEntities)
      if (plain == c) entity = escaped;
    if (entity.empty())
      out += c;
    else
      out += entity;
  }
  return out;
}

std::string html_unescaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    size_t taken = 0;
    if (text[0] == '&')
      for (auto [plain, escaped] : kEntities)
        if (text.starts_with(escaped)) {
          out += plain;
          taken = escaped.size();
          break;
        }
    if (taken == 0) {
      out += text[0];
      taken = 1;
    }
    text.remove_prefix(taken);
  }
  return out;
}

std::string url_part(std::string_view text) {
  constexpr std::string_view kKept = "-_.!~*'()";
  std::string out;
  for (char c : text) {
    bool word = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (word || kKept.find(c) != std::string_view::npos)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string page_json(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string script_json(const Json& json) {
  std::string out;
  for (char c : page_json(json)) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

}  // namespace fk
