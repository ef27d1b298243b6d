// Rows in three formats: aligned text, JSON and CSV.
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/output.h"
#include "cli/table_layout.h"
#include "cli/text_width.h"
#include "core/check.h"

namespace fk {
namespace {

std::string csv_field(const Json& value) {
  if (value.is_null()) return "";
  std::string field = value.is_string() ? value.get<std::string>() : dump_json(value, -1);
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string quoted = "\"";
  for (char c : field) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

Cell::Cell(double number, int decimals) : Cell() {
  if (!std::isfinite(number)) return;
  value = number;
  text = fmt::format("{:.{}f}", number, decimals);
}

void Table::add_row(std::vector<Cell> cells) {
  FK_CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::to_text(const TextStyle& style) const {
  std::vector<TableLayout::Column> layout;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = text_width(columns_[c].title), longest_word = 0;
    bool numbers = false, words = false;
    for (const auto& row : rows_) {
      std::string text = printable(row[c].text);
      width = std::max(width, text_width(text));
      longest_word = std::max(longest_word, widest_word(text));
      numbers |= row[c].value.is_number();
      words |= row[c].value.is_string() || row[c].value.is_array();
    }
    layout.push_back({.title = columns_[c].title,
                      .width = width,
                      .right = numbers && !words,
                      .expendable = columns_[c].expendable,
                      .wrapped = words,
                      .whole = columns_[c].whole,
                      .longest_word = longest_word});
  }
  TableLayout fitted = TableLayout::wrapping(std::move(layout), style);
  std::string out = fitted.head();
  for (const auto& row : rows_) {
    std::vector<TableText> texts;
    for (const Cell& cell : row) texts.push_back({cell.text});
    out += fitted.row(texts);
  }
  if (const std::string left_out = fitted.left_out(); !left_out.empty())
    out += fmt::format("(left out in {} columns: {}; --csv has them)\n", style.columns, left_out);
  return out;
}

std::string csv_record(const std::vector<Json>& fields) {
  std::string out;
  for (const Json& field : fields) out += (&field == &fields[0] ? "" : ",") + csv_field(field);
  return out + "\r\n";
}

std::string Table::to_csv() const {
  std::vector<Json> fields;
  for (const Column& column : columns_) fields.emplace_back(column.key);
  std::string out = csv_record(fields);
  for (const auto& row : rows_) {
    fields.clear();
    for (const Cell& cell : row) fields.push_back(cell.value);
    out += csv_record(fields);
  }
  return out;
}

Json Table::to_json() const {
  Json array = Json::array();
  for (const auto& row : rows_) {
    Json object = Json::object();
    for (size_t c = 0; c < columns_.size(); ++c) object[columns_[c].key] = row[c].value;
    array.push_back(std::move(object));
  }
  return array;
}

void Table::print(const CommonOptions& common) const {
  if (common.json) return print_out(dump_json(to_json()) + "\n");
  if (common.csv) return print_csv(to_csv());
  print_out(to_text());
}

}  // namespace fk
