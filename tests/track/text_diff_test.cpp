// A diff applied to the first text gives the second, with the least number of changed lines.
#include "track/text_diff.h"

#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <vector>

namespace fk {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// What patch(1) does, for texts that end in newlines.
std::string patched(const std::string& before, const std::string& diff) {
  std::vector<std::string> old = lines_of(before), out;
  size_t at = 0;
  for (const std::string& line : lines_of(diff)) {
    if (line.rfind("---", 0) == 0 || line.rfind("+++", 0) == 0) continue;
    if (line.rfind("@@ -", 0) == 0) {
      size_t start = std::stoul(line.substr(4));
      bool empty = line.find(",0 +") != std::string::npos;
      size_t to = empty ? start : start - 1;
      while (at < to) out.push_back(old.at(at++));
    } else if (line[0] == '+') {
      out.push_back(line.substr(1));
    } else {
      EXPECT_EQ(old.at(at), line.substr(1));
      if (line[0] == ' ') out.push_back(old.at(at));
      ++at;
    }
  }
  while (at < old.size()) out.push_back(old[at++]);
  std::string text;
  for (const std::string& line : out) text += line + "\n";
  return text;
}

// The least number of changes, by dynamic programming.
size_t distance(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::vector<size_t>> common(a.size() + 1, std::vector<size_t>(b.size() + 1, 0));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b.size(); ++j)
      common[i + 1][j + 1] = a[i] == b[j] ? common[i][j] + 1 : std::max(common[i][j + 1], common[i + 1][j]);
  return a.size() + b.size() - 2 * common[a.size()][b.size()];
}

TEST(TextDiff, LooksAsDiffWritesIt) {
  EXPECT_EQ(unified_diff("same\n", "same\n", "a", "b"), "");
  EXPECT_EQ(unified_diff("one\ntwo\nthree\n", "one\n2\nthree\n", "a", "b"),
            "--- a\n+++ b\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n");
  EXPECT_EQ(unified_diff("", "new\n", "/dev/null", "b"), "--- /dev/null\n+++ b\n@@ -0,0 +1 @@\n+new\n");
  EXPECT_EQ(unified_diff("x", "x\n", "a", "b"), "--- a\n+++ b\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+x\n");
}

TEST(TextDiff, AppliedItGivesTheOtherText) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    auto text = [&](size_t most) {
      std::string s;
      for (size_t n = random() % (most + 1); n > 0; --n)
        s += std::string(1, static_cast<char>('a' + random() % 4)) + "\n";
      return s;
    };
    std::string before = text(round % 30), after = text(round % 23);
    std::string diff = unified_diff(before, after, "a", "b", static_cast<int>(random() % 4));
    ASSERT_EQ(patched(before, diff), after) << before << "--\n" << after << "--\n" << diff;
    size_t changes = 0;
    for (const std::string& line : lines_of(diff)) {
      bool header = line.rfind("---", 0) == 0 || line.rfind("+++", 0) == 0;
      changes += !header && (line[0] == '+' || line[0] == '-') ? 1 : 0;
    }
    ASSERT_EQ(changes, distance(lines_of(before), lines_of(after))) << diff;
  }
}

TEST(TextDiff, HugeDifferencesStayQuick) {
  std::string a, b;
  for (int i = 0; i < 20000; ++i) a += "a" + std::to_string(i) + "\n", b += "b" + std::to_string(i) + "\n";
  EXPECT_EQ(patched(a, unified_diff(a, b, "a", "b")), b);
}

}  // namespace
}  // namespace fk
