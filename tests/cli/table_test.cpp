// The same rows in three formats; the two for programs are read back by a second reader.
#include "cli/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cli/output.h"
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
  EXPECT_EQ(table.to_text(),
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
  EXPECT_EQ(table.to_text(), "A  B\n-  -\n");
  EXPECT_EQ(dump_json(table.to_json(), -1), "[]");
}

TEST(Table, NumbersThatAreNotFiniteAreUnknown) {
  for (double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    Table table(std::vector<Table::Column>{{"x", "x"}});
    table.add_row({Cell(bad, 1)});
    EXPECT_EQ(table.to_csv(), "x\r\n\r\n");
    EXPECT_TRUE(table.to_json()[0]["x"].is_null());
    EXPECT_EQ(table.to_text(), "x\n-\n-\n");
  }
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
