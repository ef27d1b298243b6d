// User text on a terminal: control characters are escaped.
#include "core/printable.h"

#include <gtest/gtest.h>

namespace fk {
namespace {

TEST(Printable, EscapesWhatControlsATerminal) {
  EXPECT_EQ(printable("plain, Größe 漢字 😀"), "plain, Größe 漢字 😀");
  EXPECT_EQ(printable("\x1b[31mred\x07\n"), "\\x1b[31mred\\x07\\x0a");
  EXPECT_EQ(printable(std::string_view("a\0b\x7f", 4)), "a\\x00b\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b") << "an escape of its own in terminals of eight bits";
  EXPECT_EQ(printable("\xc2\xa0"), "\xc2\xa0");
}

TEST(Printable, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("a\xff"), "a\\xff");
  EXPECT_EQ(printable("\xe6\xbc"), "\\xe6\\xbc") << "cut off";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half a surrogate pair";
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf") << "overlong";
}

TEST(Printable, LinesStayLines) {
  EXPECT_EQ(printable_lines("a\n\tb\r\x1b"), "a\n\tb\\x0d\\x1b");
  EXPECT_EQ(printable_lines("a\r\n\x1b", "\r"), "a\r\n\\x1b");
}

}  // namespace
}  // namespace fk
