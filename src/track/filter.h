// MLflow's filter grammar: `metrics.avg_speedup > 1.1 and tags.tier = "kernel"`, parsed with positions.
//
//   filter     = comparison { "and" comparison }
//   comparison = entity "." key operator value | attribute operator value
//   operator   = "=" "!=" ">" ">=" "<" "<=" "LIKE" "ILIKE" "IN" "NOT IN" "IS NULL" "IS NOT NULL"
//
// Keys with special characters are written in backticks or double quotes, text in single or double quotes. As in MLflow
// there is no OR, and parentheses are only for lists.
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

// All comparisons must hold; an empty text has none. Throws UsageError with the column of the error.
std::vector<FilterComparison> parse_filter(std::string_view text);

}  // namespace fk
