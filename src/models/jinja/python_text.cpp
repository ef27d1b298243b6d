#include "models/jinja/python_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "models/unicode.h"

namespace fk::jinja {
namespace {

struct Character {
  char32_t c;
  size_t at, size;
};

std::vector<Character> characters(std::string_view text) {
  std::vector<Character> all;
  for (size_t at = 0; at < text.size();) {
    auto [c, size] = unicode::decode_at(text, at);
    all.push_back({c, at, size});
    at += size;
  }
  return all;
}

void append(std::string& out, const unicode::Mapped& mapped) {
  for (char32_t c : mapped)
    if (c != 0) unicode::append_utf8(out, c);
}

bool is_cased(char32_t c) {
  static const uint32_t kLetters =
      unicode::category_mask("Lu") | unicode::category_mask("Ll") | unicode::category_mask("Lt");
  return (unicode::category_bit(c) & kLetters) != 0;
}

bool is_case_ignorable(char32_t c) {
  static const uint32_t kMarks = unicode::category_mask("Mn") | unicode::category_mask("Me") |
                                 unicode::category_mask("Cf") | unicode::category_mask("Lm") |
                                 unicode::category_mask("Sk");
  constexpr std::u32string_view kSigns = U"'.:\u00B7\u0387\u2018\u2019\u2024\u2027\uFE13\uFE52\uFE55\uFF07\uFF0E\uFF1A";
  return (unicode::category_bit(c) & kMarks) != 0 || kSigns.find(c) != kSigns.npos;
}

// A capital sigma at the end of a word has a lower case of its own.
bool is_final_sigma(const std::vector<Character>& all, size_t i) {
  auto cased = [&](auto from, auto to) {
    auto found = std::find_if(from, to, [](const Character& x) { return !is_case_ignorable(x.c); });
    return found != to && is_cased(found->c);
  };
  auto at = static_cast<std::ptrdiff_t>(i);
  return cased(all.rbegin() + (static_cast<std::ptrdiff_t>(all.size()) - at), all.rend()) &&
         !cased(all.begin() + at + 1, all.end());
}

constexpr char32_t kCapitalSigma = 0x3A3, kFinalSigma = 0x3C2;

void append_lower(std::string& out, const std::vector<Character>& all, size_t i) {
  if (all[i].c == kCapitalSigma && is_final_sigma(all, i))
    unicode::append_utf8(out, kFinalSigma);
  else
    append(out, unicode::lower_case(all[i].c));
}

// Where str.splitlines() ends a line; "\r\n" is one end.
bool ends_line(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_printable(char32_t c) {
  static const uint32_t kHidden = unicode::category_mask("C") | unicode::category_mask("Z");
  return c == ' ' || (unicode::category_bit(c) & kHidden) == 0;
}

std::vector<std::string> split_at_space(std::string_view text, int64_t limit, bool from_right) {
  std::vector<Character> all = characters(text);
  std::vector<std::string> parts;
  if (from_right) {
    size_t end = all.size();
    while (true) {
      while (end > 0 && is_space(all[end - 1].c)) --end;
      if (end == 0) break;
      size_t stop = all[end - 1].at + all[end - 1].size;
      if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
        parts.emplace_back(text.substr(0, stop));
        break;
      }
      size_t first = end;
      while (first > 0 && !is_space(all[first - 1].c)) --first;
      parts.emplace_back(text.substr(all[first].at, stop - all[first].at));
      end = first;
    }
    std::reverse(parts.begin(), parts.end());
    return parts;
  }
  for (size_t i = 0; i < all.size();) {
    if (is_space(all[i].c)) {
      ++i;
      continue;
    }
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.emplace_back(text.substr(all[i].at));
      break;
    }
    size_t end = i;
    while (end < all.size() && !is_space(all[end].c)) ++end;
    size_t stop = end < all.size() ? all[end].at : text.size();
    parts.emplace_back(text.substr(all[i].at, stop - all[i].at));
    i = end;
  }
  return parts;
}

}  // namespace

int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

bool is_space(char32_t c) { return (c >= 0x1C && c <= 0x1F) || unicode::is_space(c); }

std::string strip(std::string_view text, bool left, bool right, const std::string_view* chars) {
  std::u32string set;
  if (chars != nullptr)
    for (const Character& x : characters(*chars)) set += x.c;
  auto goes = [&](char32_t c) { return chars == nullptr ? is_space(c) : set.find(c) != set.npos; };
  size_t first = 0, end = text.size();
  while (left && first < end) {
    auto [c, size] = unicode::decode_at(text, first);
    if (!goes(c)) break;
    first += size;
  }
  while (right && end > first) {
    size_t at = unicode::previous(text, end);
    if (!goes(unicode::decode_at(text, at).c)) break;
    end = at;
  }
  return std::string(text.substr(first, end - first));
}

std::vector<std::string> split(std::string_view text, const std::string_view* separator, int64_t limit,
                               bool from_right) {
  if (separator == nullptr) return split_at_space(text, limit, from_right);
  std::vector<std::string> parts;
  while (limit < 0 || static_cast<int64_t>(parts.size()) < limit) {
    size_t at = from_right ? text.rfind(*separator) : text.find(*separator);
    if (at == text.npos) break;
    size_t after = at + separator->size();
    parts.emplace_back(from_right ? text.substr(after) : text.substr(0, at));
    text = from_right ? text.substr(0, at) : text.substr(after);
  }
  parts.emplace_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    auto [c, size] = unicode::decode_at(text, at);
    size_t next = at + size;
    if (ends_line(c)) {
      if (c == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.emplace_back(text.substr(start, (keep_ends ? next : at) - start));
      start = next;
    }
    at = next;
  }
  if (start < text.size()) lines.emplace_back(text.substr(start));
  return lines;
}

std::string replace_all(std::string_view text, std::string_view old, std::string_view with, int64_t limit) {
  std::string out;
  int64_t done = 0;
  if (old.empty()) {  // before every character, and at the end
    for (const Character& x : characters(text)) {
      if (limit < 0 || done++ < limit) out += with;
      out += text.substr(x.at, x.size);
    }
    if (limit < 0 || done < limit) out += with;
    return out;
  }
  for (size_t at; (limit < 0 || done < limit) && (at = text.find(old)) != text.npos; ++done) {
    out.append(text.substr(0, at)).append(with);
    text.remove_prefix(at + old.size());
  }
  return out.append(text);
}

std::string to_upper(std::string_view text) {
  std::string out;
  for (const Character& x : characters(text)) append(out, unicode::upper_case(x.c));
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  std::vector<Character> all = characters(text);
  for (size_t i = 0; i < all.size(); ++i) append_lower(out, all, i);
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  std::vector<Character> all = characters(text);
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == 0)
      append(out, unicode::title_case(all[i].c));
    else
      append_lower(out, all, i);
  }
  return out;
}

std::string title_case(std::string_view text) {
  std::string out;
  bool starts = true;
  for (const Character& x : characters(text)) {
    append(out, starts ? unicode::upper_case(x.c) : unicode::lower_case(x.c));
    starts = is_space(x.c) || std::u32string_view(U"-({[<").find(x.c) != std::u32string_view::npos;
  }
  return out;
}

// The shortest digits that give the same number; with an exponent below 1e-4 and from 1e16 on.
std::string html_escaped(std::string_view text) {
  constexpr std::string_view kMarks = "&<>'\"";
  constexpr std::string_view kNames[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  std::string out;
  for (char c : text) {
    if (size_t i = kMarks.find(c); i != kMarks.npos)
      out += kNames[i];
    else
      out += c;
  }
  return out;
}

std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[64];
  double size = std::fabs(value);
  bool scientific = value != 0 && (size < 1e-4 || size >= 1e16);
  auto end = std::to_chars(digits, digits + sizeof digits, value,
                           scientific ? std::chars_format::scientific : std::chars_format::fixed);
  std::string out(digits, end.ptr);
  if (!scientific && out.find('.') == out.npos) out += ".0";
  return out;
}

std::string python_quoted(std::string_view text) {
  char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for (const Character& x : characters(text)) {
    if (x.c == static_cast<char32_t>(quote) || x.c == '\\')
      out += {'\\', static_cast<char>(x.c)};
    else if (x.c == '\n')
      out += "\\n";
    else if (x.c == '\r')
      out += "\\r";
    else if (x.c == '\t')
      out += "\\t";
    else if (is_printable(x.c))
      out += text.substr(x.at, x.size);
    else if (x.c < 0x100)
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(x.c));
    else if (x.c < 0x10000)
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(x.c));
    else
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(x.c));
  }
  return out + quote;
}

}  // namespace fk::jinja
