#include "cli/text_width.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace fk {
namespace {

struct Range {
  uint32_t first, last;
};

// Combining marks, which are drawn over the character before them, and invisible characters.
constexpr Range kNoWidth[] = {
    {0x0300, 0x036f}, {0x0483, 0x0489}, {0x0591, 0x05bd}, {0x0610, 0x061a}, {0x064b, 0x065f},   {0x0900, 0x0902},
    {0x093c, 0x093c}, {0x0941, 0x0948}, {0x0e31, 0x0e31}, {0x0e34, 0x0e3a}, {0x0e47, 0x0e4e},   {0x1ab0, 0x1aff},
    {0x1dc0, 0x1dff}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x2064}, {0x20d0, 0x20ff},   {0x302a, 0x302d},
    {0x3099, 0x309a}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xfeff, 0xfeff}, {0x1f3fb, 0x1f3ff}, {0xe0000, 0xe01ef}};

// Wide and full-width characters, after the property East_Asian_Width of Unicode.
constexpr Range kTwoColumns[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23ec},   {0x23f0, 0x23f0},
    {0x23f3, 0x23f3},   {0x25fd, 0x25fe},   {0x2614, 0x2615},   {0x2648, 0x2653},   {0x267f, 0x267f},
    {0x2693, 0x2693},   {0x26a1, 0x26a1},   {0x26aa, 0x26ab},   {0x26bd, 0x26be},   {0x26c4, 0x26c5},
    {0x26ce, 0x26ce},   {0x26d4, 0x26d4},   {0x26ea, 0x26ea},   {0x26f2, 0x26f3},   {0x26f5, 0x26f5},
    {0x26fa, 0x26fa},   {0x26fd, 0x26fd},   {0x2705, 0x2705},   {0x270a, 0x270b},   {0x2728, 0x2728},
    {0x274c, 0x274c},   {0x274e, 0x274e},   {0x2753, 0x2755},   {0x2757, 0x2757},   {0x2795, 0x2797},
    {0x27b0, 0x27b0},   {0x27bf, 0x27bf},   {0x2b1b, 0x2b1c},   {0x2b50, 0x2b50},   {0x2b55, 0x2b55},
    {0x2e80, 0x303e},   {0x3041, 0x4dbf},   {0x4e00, 0xa4cf},   {0xa960, 0xa97f},   {0xac00, 0xd7a3},
    {0xf900, 0xfaff},   {0xfe10, 0xfe19},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},
    {0x16fe0, 0x18aff}, {0x1b000, 0x1b2ff}, {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f18e},
    {0x1f191, 0x1f19a}, {0x1f200, 0x1f265}, {0x1f300, 0x1f320}, {0x1f32d, 0x1f335}, {0x1f337, 0x1f37c},
    {0x1f37e, 0x1f393}, {0x1f3a0, 0x1f3ca}, {0x1f3cf, 0x1f3d3}, {0x1f3e0, 0x1f3f0}, {0x1f3f4, 0x1f3f4},
    {0x1f3f8, 0x1f43e}, {0x1f440, 0x1f440}, {0x1f442, 0x1f4fc}, {0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f567},
    {0x1f57a, 0x1f57a}, {0x1f595, 0x1f596}, {0x1f5a4, 0x1f5a4}, {0x1f5fb, 0x1f64f}, {0x1f680, 0x1f6c5},
    {0x1f6cc, 0x1f6cc}, {0x1f6d0, 0x1f6d7}, {0x1f6dc, 0x1f6df}, {0x1f6eb, 0x1f6ec}, {0x1f6f4, 0x1f6fc},
    {0x1f7e0, 0x1f7f0}, {0x1f90c, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x3fffd}};

template <size_t n>
bool within(const Range (&ranges)[n], uint32_t code) {
  const Range* after = std::upper_bound(std::begin(ranges), std::end(ranges), code,
                                        [](uint32_t c, const Range& r) { return c < r.first; });
  return after != std::begin(ranges) && code <= std::prev(after)->last;
}

struct Character {
  size_t bytes = 1;
  size_t columns = 1;
};

Character first_character(std::string_view text) {
  auto lead = static_cast<unsigned char>(text[0]);
  size_t bytes = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  if (bytes == 1 || bytes > text.size()) return {};
  uint32_t code = lead & (0xffU >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) {
    auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return {};
    code = code << 6 | (next & 0x3f);
  }
  return {bytes, within(kNoWidth, code) ? 0U : within(kTwoColumns, code) ? 2U : 1U};
}

bool may_break_behind(char c) { return std::string_view("/,_-.").find(c) != std::string_view::npos; }

}  // namespace

size_t text_width(std::string_view utf8) {
  size_t columns = 0;
  while (!utf8.empty()) {
    Character c = first_character(utf8);
    columns += c.columns;
    utf8.remove_prefix(c.bytes);
  }
  return columns;
}

size_t widest_word(std::string_view utf8) {
  size_t widest = 0;
  while (!utf8.empty()) {
    std::string_view word = utf8.substr(0, utf8.find(' '));
    widest = std::max(widest, text_width(word));
    utf8.remove_prefix(std::min(word.size() + 1, utf8.size()));
  }
  return widest;
}

std::string_view first_columns(std::string_view utf8, size_t columns) {
  size_t end = 0, used = 0;
  while (end < utf8.size()) {
    Character c = first_character(utf8.substr(end));
    if (used + c.columns > columns) break;
    used += c.columns;
    end += c.bytes;
  }
  return utf8.substr(0, end);
}

std::vector<std::string> wrapped_lines(std::string_view utf8, size_t columns) {
  std::vector<std::string> lines;
  while (text_width(utf8) > columns) {
    std::string_view line = first_columns(utf8, columns);
    if (line.empty()) line = utf8.substr(0, first_character(utf8).bytes);
    size_t end = line.size(), blank = line.find_last_of(' ');
    if (utf8[end] != ' ') {
      if (blank != std::string_view::npos && line.find_first_not_of(' ') < blank) {
        end = blank;
      } else {
        while (end > 0 && !may_break_behind(utf8[end - 1])) --end;
        if (end == 0) end = line.size();
      }
    }
    std::string_view broken = utf8.substr(0, end);
    lines.emplace_back(broken.substr(0, broken.find_last_not_of(' ') + 1));
    utf8.remove_prefix(end);
    utf8.remove_prefix(std::min(utf8.find_first_not_of(' '), utf8.size()));
  }
  if (!utf8.empty() || lines.empty()) lines.emplace_back(utf8);
  return lines;
}

}  // namespace fk
