// MLflow's filter grammar: its meaning, and the position of errors.
#include "track/filter.h"

#include <gmock/gmock.h>

#include "core/error.h"

namespace fk {
namespace {

using testing::HasSubstr;

FilterComparison one(std::string_view text) {
  std::vector<FilterComparison> all = parse_filter(text);
  EXPECT_EQ(all.size(), 1u) << text;
  return all.empty() ? FilterComparison() : all[0];
}

std::string filter_error(std::string_view text) {
  try {
    parse_filter(text);
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

TEST(Filter, ReadsEveryKindOfComparison) {
  FilterComparison c = one("metrics.avg_speedup > 1.1");
  EXPECT_EQ(c.entity, FilterEntity::kMetric);
  EXPECT_EQ(c.key, "avg_speedup");
  EXPECT_EQ(c.op, FilterOp::kGt);
  EXPECT_EQ(std::get<double>(c.value), 1.1);
  EXPECT_EQ(std::get<double>(one("metric.x>=-2.5e-3").value), -2.5e-3);
  EXPECT_EQ(std::get<double>(one("metrics.x != +7").value), 7);
  EXPECT_EQ(one("params.lr = '0.1'").entity, FilterEntity::kParam);
  EXPECT_EQ(std::get<std::string>(one("tags.tier = \"a 'b' and c\"").value), "a 'b' and c");
  EXPECT_EQ(one("tags.`odd key, = with signs` = 'x'").key, "odd key, = with signs");
  EXPECT_EQ(one("tags.\"mlflow.source.name\" = 'x'").key, "mlflow.source.name");
  EXPECT_EQ(one("tags.mlflow.source.name LIKE '%x'").key, "mlflow.source.name");
  EXPECT_EQ(one("run_name ilike 'x'").op, FilterOp::kILike);
  EXPECT_EQ(one("attributes.status = 'FINISHED'").key, "status");
  EXPECT_EQ(one("attr.start_time < 1700000000000").key, "start_time");
  FilterComparison in = one("run_id NOT IN ('a','b' , 'c')");
  EXPECT_EQ(in.op, FilterOp::kNotIn);
  EXPECT_EQ(std::get<std::vector<std::string>>(in.value), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(one("tags.x is not null").op, FilterOp::kIsNotNull);
  EXPECT_EQ(parse_filter("metrics.a > 1 and params.b = 'c' AND tags.d LIKE 'e%'").size(), 3u);
  EXPECT_TRUE(parse_filter("  ").empty());
}

TEST(Filter, SaysWhereItStopped) {
  EXPECT_THAT(filter_error("metrics.a > 'x'"), HasSubstr("column 13: expected a number for `a`, not the text 'x'"));
  EXPECT_THAT(filter_error("metrics.a > 1 or metrics.b > 2"), HasSubstr("column 15: there is no OR"));
  EXPECT_THAT(filter_error("(metrics.a > 1)"), HasSubstr("column 1: parentheses"));
  EXPECT_THAT(filter_error("metric.a ="), HasSubstr("column 11: expected a number for `a`, not the end"));
  EXPECT_THAT(filter_error("params.a = b"), HasSubstr("column 12: expected text in quotes"));
  EXPECT_THAT(filter_error("params.a = 3"), HasSubstr("column 12: expected text in quotes"));
  EXPECT_THAT(filter_error("params.a > '3'"), HasSubstr("column 10: `a` is text"));
  EXPECT_THAT(filter_error("metrics.a like '3'"), HasSubstr("column 11: `a` is a number"));
  EXPECT_THAT(filter_error("tags.a = 'open"), HasSubstr("column 10: the ' that opens here"));
  EXPECT_THAT(filter_error("speed > 1"), HasSubstr("column 1: `speed` is no attribute"));
  EXPECT_THAT(filter_error("metrix.a > 1"), HasSubstr("column 1: `metrix` is not one of"));
  EXPECT_THAT(filter_error("metrics. > 1"), HasSubstr("column 9: `metrics.` needs a key"));
  EXPECT_THAT(filter_error("metrics.a ! 1"), HasSubstr("column 11: `!` alone"));
  EXPECT_THAT(filter_error("metrics.a > 1 metrics.b > 2"), HasSubstr("column 15: expected `and`"));
  EXPECT_THAT(filter_error("metrics.a > 1 and"), HasSubstr("column 18: expected metrics.KEY"));
  EXPECT_THAT(filter_error("run_id in 'a'"), HasSubstr("column 11: expected a list"));
  EXPECT_THAT(filter_error("run_id in ('a' 'b')"), HasSubstr("column 16: expected `,` or `)`"));
  EXPECT_THAT(filter_error("run_id not 'a'"), HasSubstr("column 12: expected `in`"));
  EXPECT_THAT(filter_error("metrics.a > nan"), HasSubstr("column 13: expected a number"));
  EXPECT_THAT(filter_error("metrics.a > 1; drop table runs"), HasSubstr("column 14"));
  EXPECT_THAT(filter_error("metrics.a = 1e999"), HasSubstr("column 13"));
}

TEST(Filter, NoTextCrashesIt) {
  // Every piece of a long filter, and every filter with one character replaced: an answer or a UsageError, nothing
  // else.
  std::string whole =
      "metrics.a >= 1.5 and tags.`b c` NOT IN ('x', \"y\") and params.d is not null and run_name ILIKE '%'";
  for (size_t i = 0; i <= whole.size(); ++i) filter_error(whole.substr(0, i));
  for (size_t i = 0; i < whole.size(); ++i)
    for (char c : std::string_view("'\"`().=! \x01\xff"
                                   "9a")) {
      std::string changed = whole;
      changed[i] = c;
      filter_error(changed);
    }
}

}  // namespace
}  // namespace fk
