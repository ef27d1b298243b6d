// Unicode below the tokenizer, against the standard's own examples and rules.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "models/unicode.h"

namespace fk::unicode {
namespace {

std::string utf8(std::u32string_view text) {
  std::string out;
  for (char32_t c : text) append_utf8(out, c);
  return out;
}

TEST(Utf8, EveryCharacterComesBack) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text("x");
    append_utf8(text, c);
    ASSERT_EQ(repair_utf8(text), text);
    ASSERT_EQ(decode_at(text, 1).c, c);
    ASSERT_EQ(decode_at(text, 1).size, text.size() - 1);
    ASSERT_EQ(previous(text, text.size()), 1u);
  }
}

// Table 3-8 of The Unicode Standard ("U+FFFD for Maximal Subparts") and the cases its text names.
TEST(Utf8, InvalidPartsBecomeOneReplacementEach) {
  const std::string r(kReplacement);
  std::pair<std::string, std::string> cases[] = {
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", r + r + r + r + r + r + r + r + "A"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", r + r + r + r + r + r + r + r + "A"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", r + r + r + r + r + "A" + r + r + "B"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", r + r + r + r + "A"},
      {"\xE2\x82", r},
      {"\x80", r},
  };
  for (const auto& [bytes, expected] : cases) {
    EXPECT_EQ(repair_utf8(bytes), expected);
    std::string out;
    Utf8Repair repair;
    for (char byte : bytes) repair.push(std::string_view(&byte, 1), out);
    repair.finish(out);
    EXPECT_EQ(out, expected) << "one byte at a time";
  }
}

// UAX 15, figures 3 to 6, and one line of each kind from NormalizationTest.txt.
TEST(Nfc, ComposesAsTheStandardSays) {
  std::pair<std::u32string, std::u32string> cases[] = {
      {U"\u212B", U"\u00C5"},                                  // singleton
      {U"\u2126", U"\u03A9"},                                  // singleton
      {U"A\u030A", U"\u00C5"},                                 // canonical composite
      {U"\u1E9B\u0323", U"\u1E9B\u0323"},                      // multiple marks
      {U"s\u0323\u0307", U"\u1E69"},                           // in order
      {U"s\u0307\u0323", U"\u1E69"},                           // out of order
      {U"d\u0323\u0307", U"\u1E0D\u0307"},                     // partly composed
      {U"\u1E0B\u0323", U"\u1E0D\u0307"},                      // decomposed, ordered, composed
      {U"\uFB01", U"\uFB01"},                                  // compatibility characters stay
      {U"\u0958", U"\u0915\u093C"},                            // composition exclusion
      {U"\u2ADC", U"\u2ADD\u0338"},                            // composition exclusion
      {U"\u0344", U"\u0308\u0301"},                            // non-starter decomposition
      {U"\U0001D15E", U"\U0001D157\U0001D165"},                // excluded, above the BMP
      {U"\U00011099\U000110BA", U"\U0001109A"},                // composes, above the BMP
      {U"\u1112\u1161\u11AB", U"\uD55C"},                      // Hangul L V T
      {U"\uD558\u11AB", U"\uD55C"},                            // Hangul LV T
      {U"\uD55C\u11AB", U"\uD55C\u11AB"},                      // Hangul LVT T does not compose
      {U"\u1112\u0301\u1161", U"\u1112\u0301\u1161"},          // a mark between blocks
      {U"a\u0315\u0300\u05AE\u0062", U"\u00E0\u05AE\u0315b"},  // reordered around a composition
      {U"\u0061\u0327\u0307\u0323", U"\u1EA1\u0327\u0307"},
      {U"\u0301a", U"\u0301a"},  // a mark with no base
      {U"", U""},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(nfc(utf8(text)), utf8(expected));
    EXPECT_EQ(nfc(utf8(expected)), utf8(expected));
  }
}

TEST(Properties, CategoriesSpacesAndWords) {
  EXPECT_EQ(category_bit('a'), category_mask("Ll"));
  EXPECT_EQ(category_bit(U'的'), category_mask("Lo"));
  EXPECT_EQ(category_bit(0x0301), category_mask("Mn"));
  EXPECT_EQ(category_bit(U'Ⅷ'), category_mask("Nl"));
  EXPECT_EQ(category_bit(0x10FFFF), category_mask("Cn"));
  EXPECT_EQ(category_bit(0xE000), category_mask("Co"));
  EXPECT_EQ(category_mask("L"), category_mask("Lu") | category_mask("Ll") | category_mask("Lt") | category_mask("Lm") |
                                    category_mask("Lo"));
  EXPECT_EQ(category_mask("Han"), 0u);
  EXPECT_EQ(category_mask(""), 0u);
  int spaces = 0;
  for (char32_t c = 0; c < 0x110000; ++c) spaces += is_space(c);
  EXPECT_EQ(spaces, 25);  // White_Space has had 25 members since Unicode 6.3
  for (char32_t c : {U'a', U'_', U'9', U'é', U'的', U'\u0301', U'\u200D', U'Ⓐ'}) EXPECT_TRUE(is_word(c));
  for (char32_t c : {U' ', U'-', U'.', U'½', U'😀'}) EXPECT_FALSE(is_word(c));
}

}  // namespace
}  // namespace fk::unicode
