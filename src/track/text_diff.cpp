#include "track/text_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace fk {
namespace {

using Lines = std::vector<std::string_view>;

Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    size_t end = text.find('\n');
    size_t size = end == std::string_view::npos ? text.size() : end + 1;  // with its newline: one without it differs
    lines.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return lines;
}

struct Edit {
  char kind = ' ';  // ' ' in both, '-' before only, '+' after only
  std::string_view line;
};

// Texts with more changes are shown as one replaced by the other: memory grows with the square of the changes.
constexpr int64_t kMostChanges = 1500;

std::vector<Edit> replaced(const Lines& a, const Lines& b) {
  std::vector<Edit> edits;
  for (std::string_view line : a) edits.push_back({'-', line});
  for (std::string_view line : b) edits.push_back({'+', line});
  return edits;
}

// furthest[k]: how far into `a` d changes reach on the diagonal k = x - y. Kept for every d, to walk back.
std::vector<Edit> edits_of(const Lines& a, const Lines& b) {
  auto n = static_cast<int64_t>(a.size()), m = static_cast<int64_t>(b.size());
  std::vector<std::vector<int64_t>> trace;
  std::vector<int64_t> furthest = {0};
  auto at = [](const std::vector<int64_t>& row, int64_t d, int64_t k) { return row[static_cast<size_t>(k + d)]; };
  for (int64_t d = 0;; ++d) {
    if (d > kMostChanges) return replaced(a, b);
    std::vector<int64_t> next(static_cast<size_t>(2 * d + 1), -1);
    bool reached = false;
    for (int64_t k = -d; k <= d && !reached; k += 2) {
      int64_t x = 0;
      if (d > 0) {
        int64_t down = k + 1 <= d - 1 ? at(furthest, d - 1, k + 1) : -1;
        int64_t right = k - 1 >= -(d - 1) ? at(furthest, d - 1, k - 1) : -1;
        x = std::max(down, right < 0 ? -1 : right + 1);
      }
      if (x < 0 || x > n || x - k > m || x - k < 0) continue;
      while (x < n && x - k < m && a[static_cast<size_t>(x)] == b[static_cast<size_t>(x - k)]) ++x;
      next[static_cast<size_t>(k + d)] = x;
      reached = x == n && x - k == m;
    }
    trace.push_back(next);
    furthest = std::move(next);
    if (reached) break;
  }
  std::vector<Edit> edits;
  int64_t x = n, y = m;
  for (auto d = static_cast<int64_t>(trace.size()) - 1; d >= 0; --d) {
    int64_t k = x - y, from_x = 0, from_y = 0;
    if (d > 0) {
      const std::vector<int64_t>& row = trace[static_cast<size_t>(d - 1)];
      int64_t down = k + 1 <= d - 1 ? at(row, d - 1, k + 1) : -1;
      int64_t right = k - 1 >= -(d - 1) ? at(row, d - 1, k - 1) : -1;
      bool came_down = right < 0 || down > right;
      from_x = came_down ? down : right;
      from_y = from_x - (came_down ? k + 1 : k - 1);
    }
    while (x > from_x && y > from_y) edits.push_back({' ', a[static_cast<size_t>(--x)]}), --y;
    if (d == 0) break;
    if (x == from_x)
      edits.push_back({'+', b[static_cast<size_t>(--y)]});
    else
      edits.push_back({'-', a[static_cast<size_t>(--x)]});
  }
  std::reverse(edits.begin(), edits.end());
  return edits;
}

std::string range(int64_t start, int64_t count) {
  // As diff -u writes it: an empty range names the line before it, a range of one leaves the count out.
  return count == 1 ? fmt::format("{}", start) : fmt::format("{},{}", count == 0 ? start - 1 : start, count);
}

}  // namespace

std::string unified_diff(std::string_view before, std::string_view after, std::string_view before_name,
                         std::string_view after_name, int context) {
  if (before == after) return "";
  std::vector<Edit> edits = edits_of(lines_of(before), lines_of(after));
  std::string out = fmt::format("--- {}\n+++ {}\n", before_name, after_name);
  auto margin = static_cast<size_t>(context);
  for (size_t i = 0; i < edits.size();) {
    if (edits[i].kind == ' ') {
      ++i;
      continue;
    }
    size_t begin = i > margin ? i - margin : 0, last = i;
    for (size_t j = i; j < edits.size() && j <= last + 2 * margin + 1; ++j)
      if (edits[j].kind != ' ') last = j;
    size_t end = std::min(edits.size(), last + margin + 1);
    int64_t a_line = 1, b_line = 1, a_count = 0, b_count = 0;
    for (size_t j = 0; j < end; ++j) {
      bool inside = j >= begin;
      if (edits[j].kind != '+') ++(inside ? a_count : a_line);
      if (edits[j].kind != '-') ++(inside ? b_count : b_line);
    }
    out += fmt::format("@@ -{} +{} @@\n", range(a_line, a_count), range(b_line, b_count));
    for (size_t j = begin; j < end; ++j) {
      out += edits[j].kind;
      out += edits[j].line;
      if (edits[j].line.empty() || edits[j].line.back() != '\n') out += "\n\\ No newline at end of file\n";
    }
    i = end;
  }
  return out;
}

}  // namespace fk
