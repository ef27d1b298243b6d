// MLflow's filter grammar: `metrics.avg_speedup > 1.1 and tags.tier = "kernel"`, parsed with positions.
//
//   filter     = comparison { "and" comparison }
//   comparison = entity "." key operator value | attribute operator value
//   operator   = "=" "!=" ">" ">=" "<" "<=" "LIKE" "ILIKE" "IN" "NOT IN" "IS NULL" "IS NOT NULL"
//
// Keys with blanks or odd characters stand in backticks or double quotes, text in either kind of quotes. As in MLflow
// there is no OR and there are no parentheses but those of a list.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace fk {

enum class FilterEntity : uint8_t { kMetric, kParam, kTag, kAttribute };
enum class FilterOp : uint8_t { kEq, kNe, kGt, kGe, kLt, kLe, kLike, kILike, kIn, kNotIn, kIsNull, kIsNotNull };

struct FilterComparison {
  FilterEntity entity = FilterEntity::kAttribute;
  std::string key;
  FilterOp op = FilterOp::kEq;
  std::variant<double, std::string, std::vector<std::string>> value;  // a number for metrics and times, else text
};

// All of them must hold; an empty text has none. Throws UsageError that names the column where reading stopped.
std::vector<FilterComparison> parse_filter(std::string_view text);

}  // namespace fk
