#include "track/sqlite/run_select.h"

#include <fmt/format.h>

#include <cctype>

#include "track/filter.h"

namespace fk {
namespace {

// LIKE of SQLite ignores case; GLOB does not, and has other wildcards.
std::string glob_of_like(std::string_view pattern) {
  std::string glob;
  for (char c : pattern) {
    if (c == '%')
      glob += '*';
    else if (c == '_')
      glob += '?';
    else if (c == '*' || c == '?' || c == '[')
      glob += fmt::format("[{}]", c);
    else
      glob += c;
  }
  return glob;
}

// Matches anywhere in the text, ignoring case; for LIKE ... ESCAPE '\'.
std::string anywhere(std::string_view text) {
  std::string pattern = "%";
  for (char c : text) {
    if (c == '%' || c == '_' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern + "%";
}

// MLflow's names of our states.
std::string our_status(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text == "killed" ? "interrupted" : text;
}

class Builder {
 public:
  RunSelect select{.where = "1", .order = "", .values = {}, .order_values = {}};

  void add(const std::string& condition) { select.where += " AND " + condition; }
  template <class... Values>
  void add(const std::string& condition, const Values&... values) {
    select.where += " AND " + condition;
    (select.values.emplace_back(values), ...);
  }

  void add(const FilterComparison& c) {
    switch (c.entity) {
      case FilterEntity::kMetric:
        return keyed(c, "metrics", " AND m.step = (SELECT max(step) FROM metrics WHERE run = m.run AND key = m.key)");
      case FilterEntity::kParam:
        return keyed(c, "params", "");
      case FilterEntity::kTag:
        return keyed(c, "tags", "");
      case FilterEntity::kAttribute:
        return attribute(c);
    }
  }

 private:
  void keyed(const FilterComparison& c, const char* table, const char* newest) {
    bool absent = c.op == FilterOp::kIsNull;
    select.where += fmt::format(" AND {}EXISTS (SELECT 1 FROM {} m WHERE m.run = r.run AND m.key = ?{}",
                                absent ? "NOT " : "", table, newest);
    select.values.emplace_back(c.key);
    if (!absent && c.op != FilterOp::kIsNotNull) compare("m.value", c);
    select.where += ")";
  }

  void attribute(FilterComparison c) {
    // MLflow's times are milliseconds.
    std::string column = c.key == "run_name"     ? "r.name"
                         : c.key == "start_time" ? "(r.started_us / 1000)"
                         : c.key == "end_time"   ? "(r.ended_us / 1000)"
                                                 : "r." + c.key;
    if (c.op == FilterOp::kIsNull || c.op == FilterOp::kIsNotNull)
      return add(column + (c.op == FilterOp::kIsNull ? " IS NULL" : " IS NOT NULL"));
    if (c.key == "status") {
      if (auto* text = std::get_if<std::string>(&c.value)) *text = our_status(*text);
      if (auto* list = std::get_if<std::vector<std::string>>(&c.value))
        for (std::string& text : *list) text = our_status(text);
    }
    compare(column, c);
  }

  void compare(const std::string& column, const FilterComparison& c) {
    if (const auto* list = std::get_if<std::vector<std::string>>(&c.value)) {
      select.where += fmt::format(" AND {} {}IN (", column, c.op == FilterOp::kNotIn ? "NOT " : "");
      for (size_t i = 0; i < list->size(); ++i) {
        select.where += i == 0 ? "?" : ", ?";
        select.values.emplace_back((*list)[i]);
      }
      select.where += ")";
      return;
    }
    static constexpr const char* kSigns[] = {"=", "!=", ">", ">=", "<", "<=", "GLOB", "LIKE"};
    select.where += fmt::format(" AND {} {} ?", column, kSigns[static_cast<size_t>(c.op)]);
    if (const auto* number = std::get_if<double>(&c.value))
      select.values.emplace_back(*number);
    else if (c.op == FilterOp::kLike)
      select.values.emplace_back(glob_of_like(std::get<std::string>(c.value)));
    else
      select.values.emplace_back(std::get<std::string>(c.value));
  }
};

}  // namespace

RunSelect run_select(const RunQuery& query) {
  Builder b;
  if (!query.op.empty()) b.add("EXISTS (SELECT 1 FROM operators x WHERE x.op = ? AND x.run = r.run)", query.op);
  // A range, not a pattern: the index supports ranges. \xff does not occur in UTF-8 text.
  if (!query.model.empty())
    b.add("EXISTS (SELECT 1 FROM run_models x WHERE x.run = r.run AND x.model >= ? AND x.model < ?)", query.model,
          query.model + "\xff");
  if (!query.device.empty())
    b.add("(r.device = ? OR iif(r.device = 'cpu' OR r.gpu_name = '', r.cpu_name, r.gpu_name) LIKE ? ESCAPE '\\')",
          query.device, anywhere(query.device));
  if (!query.tier.empty()) b.add("r.tier = ?", query.tier);
  // As a literal, not a bound value: only then SQLite uses the partial index of the running runs.
  if (query.status == "running")
    b.add("r.status = 'running'");
  else if (!query.status.empty())
    b.add("r.status = ?", query.status);
  if (!query.experiment.empty()) b.add("r.experiment = ?", query.experiment);
  if (query.since_us) b.add("r.started_us >= ?", *query.since_us);
  if (query.until_us) b.add("r.started_us < ?", *query.until_us);
  if (!query.name.empty()) b.add("r.name LIKE ? ESCAPE '\\'", anywhere(query.name));
  for (const std::string& tag : query.tags) {
    size_t sign = tag.find('=');
    if (sign == std::string::npos)
      b.add("EXISTS (SELECT 1 FROM tags x WHERE x.run = r.run AND x.key = ?)", tag);
    else
      b.add("EXISTS (SELECT 1 FROM tags x WHERE x.run = r.run AND x.key = ? AND x.value = ?)", tag.substr(0, sign),
            tag.substr(sign + 1));
  }
  if (!query.text.empty()) {
    std::string pattern = anywhere(query.text);
    b.add(
        "(r.run_id LIKE ? ESCAPE '\\' OR r.name LIKE ? ESCAPE '\\' OR r.git_commit LIKE ? ESCAPE '\\'"
        " OR EXISTS (SELECT 1 FROM tags x WHERE x.run = r.run AND x.value LIKE ? ESCAPE '\\')"
        " OR EXISTS (SELECT 1 FROM operators x WHERE x.run = r.run AND x.op LIKE ? ESCAPE '\\'))",
        pattern, pattern, pattern, pattern, pattern);
  }
  for (const FilterComparison& c : parse_filter(query.where)) b.add(c);
  const char* direction = query.oldest_first ? "" : " DESC";
  b.select.order = fmt::format(" ORDER BY r.started_us{0}, r.run{0} LIMIT ? OFFSET ?", direction);
  b.select.order_values = {SqlValue(query.limit), SqlValue(query.offset)};
  return std::move(b.select);
}

}  // namespace fk
