// The same rows in three formats; the two for programs are read back by a second reader.
#include "cli/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cli/output.h"
#include "cli/table_layout.h"
#include "cli/text_width.h"
#include "tests/cli/csv.h"

namespace fk {
namespace {

const std::string kAwkward = "say \"a, b\"\r\nthen\nend";

Table sample() {
  Table table({{"name", "name"}, {"time_ns", "time"}, {"count", "n"}, {"note", "note"}});
  table.add_row({"rms_norm", Cell(0.1 + 0.2, 2), 7, "plain"});
  table.add_row({"größe", Cell(1234567.0, 2), int64_t{-3}, kAwkward});
  table.add_row({"", Cell(), uint64_t{18446744073709551615u}, Cell()});
  return table;
}

TEST(Table, TextLinesUp) {
  Table table({{"name", "name"}, {"time_ns", "time"}, {"note", "note"}});
  table.add_row({"größe", Cell(1.0, 2), "x"});
  table.add_row({"a", Cell(123.456, 2), Cell()});
  table.add_row({"b", Cell(), "long note"});
  EXPECT_EQ(table.to_text(TextStyle{}),
            "name     time  note\n"
            "-----  ------  ---------\n"
            "größe    1.00  x\n"
            "a      123.46  -\n"
            "b           -  long note\n");
}

TEST(Table, CsvReadsBack) {
  auto records = parse_csv(sample().to_csv());
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(records[0], (std::vector<std::string>{"name", "time_ns", "count", "note"}));
  EXPECT_EQ(std::stod(records[1][1]), 0.1 + 0.2);  // exactly, not as shown to people
  EXPECT_EQ(records[1][2], "7");
  EXPECT_EQ(records[2][0], "größe");
  EXPECT_EQ(records[2][3], kAwkward);
  EXPECT_EQ(records[3], (std::vector<std::string>{"", "", "18446744073709551615", ""}));
}

TEST(Table, JsonReadsBack) {
  Json json = parse_json(dump_json(sample().to_json()), "the table");
  ASSERT_EQ(json.size(), 3u);
  EXPECT_EQ(json[0]["time_ns"].get<double>(), 0.1 + 0.2);
  EXPECT_EQ(json[1]["note"], kAwkward);
  EXPECT_TRUE(json[2]["time_ns"].is_null());
  EXPECT_EQ(json[2]["count"], 18446744073709551615u);
  EXPECT_EQ(json[0].begin().key(), "name");
}

TEST(Table, WithoutRowsThereIsStillAHeader) {
  Table table({{"a", "A"}, {"b", "B"}});
  EXPECT_EQ(table.to_csv(), "a,b\r\n");
  EXPECT_EQ(table.to_text(TextStyle{}), "A  B\n-  -\n");
  EXPECT_EQ(dump_json(table.to_json(), -1), "[]");
}

TEST(Table, NumbersThatAreNotFiniteAreUnknown) {
  for (double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    Table table(std::vector<Table::Column>{{"x", "x"}});
    table.add_row({Cell(bad, 1)});
    EXPECT_EQ(table.to_csv(), "x\r\n\r\n");
    EXPECT_TRUE(table.to_json()[0]["x"].is_null());
    EXPECT_EQ(table.to_text(TextStyle{}), "x\n-\n-\n");
  }
}

TEST(Table, WordsThatDoNotFitGoOnBelow) {
  Table table({{"name", "NAME"}, {"count", "COUNT"}, {"what", "WHAT IT IS"}});
  table.add_row({"llama-3.2-1b/tp1/decode-8/input_layernorm", 12, "first second third fourth"});
  table.add_row({"b", 3, "-"});
  EXPECT_EQ(table.to_text(TextStyle{.columns = 42}),
            "NAME                   COUNT  WHAT IT IS\n"
            "---------------------  -----  ------------\n"
            "llama-3.2-1b/tp1/         12  first second\n"
            "decode-8/input_               third fourth\n"
            "layernorm\n"
            "b                          3  -\n");
  for (size_t columns : {10, 30, 200})
    EXPECT_NE(table.to_text(TextStyle{.columns = columns}).find("12"), std::string::npos);
}

TEST(Table, WhatIsCopiedStaysWholeAndExpendableColumnsAreLeftOut) {
  Table table({{"time", "TIME", false, 2}, {"name", "NAME"}, {"status", "STATUS", false, 1}, {"id", "ID", true}});
  table.add_row({"2026-11-16 08:26:29", "kernels of softmax", "finished", "20261116-082629-989748-32bde0ff"});
  EXPECT_EQ(table.to_text(TextStyle{.columns = 80}).find("left out"), std::string::npos);
  EXPECT_EQ(table.to_text(TextStyle{.columns = 56}),
            "NAME           STATUS    ID\n"
            "-------------  --------  -------------------------------\n"
            "kernels of     finished  20261116-082629-989748-32bde0ff\n"
            "softmax\n"
            "(left out in 56 columns: TIME; --csv has them)\n");
  std::string narrow = table.to_text(TextStyle{.columns = 46});
  EXPECT_NE(narrow.find("20261116-082629-989748-32bde0ff"), std::string::npos) << narrow;
  EXPECT_NE(narrow.find("(left out in 46 columns: TIME, STATUS; --csv has them)"), std::string::npos) << narrow;
}

TEST(Table, ANameCannotMoveTheCursor) {
  Table table(std::vector<Table::Column>{{"name", "NAME"}});
  table.add_row({"red\033[31m\nline"});
  EXPECT_EQ(table.to_text(TextStyle{}), "NAME\n-------------------\nred\\x1b[31m\\x0aline\n");
}

TEST(TableLayout, ColoursTakeNoRoom) {
  TableLayout plain({{.title = "VERDICT"}, {.title = "TIME", .width = 6, .right = true}}, TextStyle{});
  TableLayout coloured({{.title = "VERDICT"}, {.title = "TIME", .width = 6, .right = true}}, TextStyle{.colour = true});
  std::vector<TableText> cells = {{"PASSED", Tone::kGood}, {"1.5"}};
  EXPECT_EQ(plain.row(cells), "PASSED      1.5\n");
  EXPECT_EQ(coloured.row(cells), "\033[32mPASSED\033[0m      1.5\n");
}

TEST(TableLayout, WhatIsTooLongMovesOnlyWhatFollows) {
  TableLayout layout({{.title = "A", .width = 3}, {.title = "B", .width = 3, .right = true}, {.title = "C"}}, {});
  EXPECT_EQ(layout.row({{"123456"}, {"7"}, {"c"}}), "123456  7  c\n");
  EXPECT_EQ(layout.row({{"12345"}, {""}, {"c"}}), "12345     c\n");
  EXPECT_EQ(layout.row({{"1"}, {""}, {""}}), "1\n");
}

TEST(TableLayout, TheFirstColumnStandsAboveTheOthersWhereTheyDoNotFit) {
  std::vector<TableLayout::Column> columns = {
      {.title = "NAME", .width = 12}, {.title = "SPEED", .width = 6}, {.title = "ERR", .width = 6, .expendable = 1}};
  EXPECT_EQ(TableLayout::stacking(columns, {.columns = 28}).head(),
            "NAME          SPEED   ERR\n"
            "------------  ------  ------\n");
  TableLayout narrow = TableLayout::stacking(columns, {.columns = 27});
  EXPECT_EQ(narrow.head() + narrow.row({{"a/long/name"}, {"FAST"}, {"0.1"}}),
            "NAME\n  SPEED   ERR\n  ------  ------\na/long/name\n  FAST    0.1\n");
  EXPECT_EQ(TableLayout::stacking(columns, {.columns = 10}).row({{"n"}, {"FAST"}, {"0.1"}}), "n\n  FAST\n");
}

TEST(TextWidth, CountsColumnsOfATerminal) {
  EXPECT_EQ(text_width(""), 0u);
  EXPECT_EQ(text_width("größe"), 5u);
  EXPECT_EQ(text_width("模型"), 4u);
  EXPECT_EQ(text_width("e\u0301"), 1u);       // an accent of its own
  EXPECT_EQ(text_width("\U0001f600"), 2u);    // an emoji
  EXPECT_EQ(text_width("\xff\xe6\x41"), 3u);  // not UTF-8
  EXPECT_EQ(first_columns("模型x", 3), "模");
  EXPECT_EQ(first_columns("模型x", 9), "模型x");
  EXPECT_EQ(wrapped_lines("", 5), std::vector<std::string>{""});
  EXPECT_EQ(wrapped_lines("模型模型", 5), (std::vector<std::string>{"模型", "模型"}));
  EXPECT_EQ(wrapped_lines("abcdefgh", 3), (std::vector<std::string>{"abc", "def", "gh"}));
  EXPECT_EQ(wrapped_lines("ab cd ef", 5), (std::vector<std::string>{"ab cd", "ef"}));
  EXPECT_EQ(wrapped_lines("cpu.neon_f32 cpu.x", 11), (std::vector<std::string>{"cpu.neon_", "f32 cpu.x"}));
  EXPECT_EQ(wrapped_lines("   ", 2).size(), 1u);
  EXPECT_EQ(widest_word("a bcd ef"), 3u);
}

TEST(Output, HumanBytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes((uint64_t{1} << 20) - 1), "1.0 MiB");
  EXPECT_EQ(human_bytes(uint64_t{5} << 30), "5.0 GiB");
  EXPECT_EQ(human_bytes(std::numeric_limits<uint64_t>::max()), "16777216.0 TiB");
}

}  // namespace
}  // namespace fk
