// JSON: what the strict parser refuses, and floats that round-trip exactly.
#include "core/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/rng.h"

namespace fk {
namespace {

// The sentence parse_json refuses `text` with; empty where it accepts.
std::string parse_refusal(std::string_view text) {
  try {
    parse_json(text, "the text");
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

std::string nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
}

TEST(ParseJson, ReadsEveryKindOfValue) {
  Json v =
      parse_json(R"( {"z": [1, -2, 1.5, true, false, null, "\u00e9\n\ud83d\ude00"], "a": {"b": {}}} )", "the text");
  EXPECT_EQ(v["z"][0], 1);
  EXPECT_EQ(v["z"][1], -2);
  EXPECT_EQ(v["z"][2], 1.5);
  EXPECT_TRUE(v["z"][5].is_null());
  EXPECT_EQ(v["z"][6], "é\n😀");
  EXPECT_EQ(v.begin().key(), "z");  // order of the text, not of the alphabet
  EXPECT_EQ(parse_json("18446744073709551615", "n").get<uint64_t>(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(parse_json("-9223372036854775808", "n").get<int64_t>(), std::numeric_limits<int64_t>::min());
}

TEST(ParseJson, RefusesWhatIsNotJson) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[1,]",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{'a':1}",
                           "[1 2]",
                           "nul",
                           "True",
                           "01",
                           "+1",
                           ".5",
                           "1.",
                           "1e",
                           "0x10",
                           "NaN",
                           "[NaN]",
                           "Infinity",
                           "-Infinity",
                           "[1] x",
                           "{} {}",
                           "\"open",
                           "\"\\x\"",
                           "\"\\ud800\"",
                           "\"tab\tinside\"",
                           "// note\n1",
                           "/* note */ 1",
                           "[1, 2",
                           "\"\xff\"",
                           "\"\xc0\x80\"",
                           "1e999",
                           "-1e999",
                           "]"})
    EXPECT_FALSE(parse_refusal(text).empty()) << text;
  EXPECT_FALSE(parse_refusal(std::string_view("1\0", 2)).empty());
  EXPECT_FALSE(parse_refusal(std::string_view("\0", 1)).empty());
}

TEST(ParseJson, SaysWhatAndWhere) {
  std::string sentence = parse_refusal("{\"a\": 1,\n \"b\": x}");
  EXPECT_NE(sentence.find("the text is not valid JSON"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("line 2"), std::string::npos) << sentence;
  EXPECT_EQ(sentence.find("json.exception"), std::string::npos) << sentence;
}

TEST(ParseJson, ASentenceStaysASentenceWhateverTheText) {
  EXPECT_LT(parse_refusal("\"" + std::string(1 << 20, 'x')).size(), 1000u);
  EXPECT_LT(
      parse_refusal("{\"" + std::string(1 << 20, 'x') + "\": 1, \"" + std::string(1 << 20, 'x') + "\": 2}").size(),
      1000u);
  EXPECT_EQ(parse_refusal("[1,\n\n\"a\nb\"]").find('\n'), std::string::npos);
}

TEST(ParseJson, RefusesAKeyGivenTwice) {
  std::string sentence = parse_refusal(R"({"a": 1, "b": {"a": 2}, "a": 3})");
  EXPECT_NE(sentence.find("'a' appears twice"), std::string::npos) << sentence;
  EXPECT_FALSE(parse_refusal(R"({"a": 1, "\u0061": 2})").empty());
  EXPECT_TRUE(parse_refusal(R"([{"a": 1}, {"a": 2}, {"b": {"a": 3}, "a": 4}])").empty());
}

TEST(ParseJson, RefusesDeepNestingWithoutRecursingIntoIt) {
  EXPECT_TRUE(parse_refusal(nested(128)).empty());
  EXPECT_NE(parse_refusal(nested(129)).find("nested deeper"), std::string::npos);
  EXPECT_NE(parse_refusal(std::string(1'000'000, '[')).find("nested deeper"), std::string::npos);
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_NE(parse_refusal(objects).find("nested deeper"), std::string::npos);
  // Depth is what is open at once, not how many brackets there are.
  std::string wide = "[0";
  for (int i = 0; i < 1000; ++i) wide += ",[{}]";
  EXPECT_TRUE(parse_refusal(wide + "]").empty());
}

TEST(ParseJsonFile, ReadsAFileAndNamesTheOneItCannotRead) {
  std::string path = testing::TempDir() + "fk_json_test.json";
  std::ofstream(path) << R"({"x": 0.1})";
  EXPECT_EQ(parse_json_file(path)["x"], 0.1);
  std::ofstream(path) << "{";
  for (const std::string& bad : {path, testing::TempDir() + "fk_no_such_file.json", testing::TempDir()}) {
    try {
      parse_json_file(bad);
      FAIL() << bad;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(bad), std::string::npos) << e.what();
    }
  }
}

TEST(DumpJson, EveryFiniteDoubleComesBackBitForBit) {
  Stream random(3, "doubles");
  Json list = Json::array();
  std::vector<double> values = {0.0,
                                -0.0,
                                0.1,
                                1.0 / 3,
                                5e-324,
                                2.2250738585072014e-308,
                                1.7976931348623157e308,
                                1e23,
                                9007199254740993.0,
                                123456789012345680.0};
  for (uint64_t i = 0; values.size() < 50'000; ++i) {
    auto x = std::bit_cast<double>((uint64_t{random.u32(2 * i)} << 32) | random.u32(2 * i + 1));
    if (std::isfinite(x)) values.push_back(x);
  }
  for (double x : values) list.push_back(x);
  Json back = parse_json(dump_json(list), "the dump");
  ASSERT_EQ(back.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(back[i].is_number_float());
    ASSERT_EQ(std::bit_cast<uint64_t>(back[i].get<double>()), std::bit_cast<uint64_t>(values[i])) << values[i];
    ASSERT_EQ(std::strtod(list[i].dump().c_str(), nullptr), values[i]);
  }
}

TEST(DumpJson, EveryFloatComesBackThroughDouble) {
  Stream random(4, "floats");
  for (uint64_t i = 0; i < 20'000; ++i) {
    auto x = std::bit_cast<float>(random.u32(i));
    if (!std::isfinite(x)) continue;
    Json value = x;
    ASSERT_EQ(parse_json(dump_json(value), "x").get<float>(), x);
  }
}

TEST(DumpJson, RefusesWhatJsonCannotSay) {
  double inf = std::numeric_limits<double>::infinity();
  for (const Json& value : {Json(inf), Json(-inf), Json(std::nan("")), Json{{"a", {1.0, {{"b", inf}}}}}})
    EXPECT_THROW(dump_json(value), Error);
}

// A path may be any bytes, and must not make writing the results fail.
TEST(DumpJson, BytesThatAreNotUtf8BecomeReplacements) {
  EXPECT_EQ(dump_json(Json("a\xff\xc3\xa9z"), -1), "\"a\xef\xbf\xbd\xc3\xa9z\"");
  EXPECT_EQ(parse_json(dump_json(Json{{"\xfe", 1}}), "the text").size(), 1u);
}

// On a terminal U+009B begins a sequence as ESC [ does.
TEST(DumpJson, ControlsOfATerminalAreEscaped) {
  EXPECT_EQ(dump_json(Json("a\x1b\xc2\x9b"
                           "b\xc2\xa0\xc3\x9b"),
                      -1),
            "\"a\\u001b\\u009bb\xc2\xa0\xc3\x9b\"");
}

TEST(DumpJson, IndentationAndOrderAreStable) {
  Json value = {{"b", 1}, {"a", {true, nullptr}}};
  EXPECT_EQ(dump_json(value, -1), R"({"b":1,"a":[true,null]})");
  EXPECT_EQ(dump_json(value), "{\n  \"b\": 1,\n  \"a\": [\n    true,\n    null\n  ]\n}");
}

}  // namespace
}  // namespace fk
