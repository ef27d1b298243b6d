// Rendering of rows; widths count code points, so that words outside ASCII still line up.
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/output.h"
#include "core/check.h"

namespace fk {
namespace {

size_t width_of(std::string_view utf8) {
  auto starts = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  return static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), starts));
}

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

std::string Table::to_text() const {
  std::vector<size_t> widths;
  std::vector<bool> right;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t width = width_of(columns_[c].title);
    bool numbers = false, words = false;
    for (const auto& row : rows_) {
      width = std::max(width, width_of(row[c].text));
      numbers |= row[c].value.is_number();
      words |= row[c].value.is_string();
    }
    widths.push_back(width);
    right.push_back(numbers && !words);
  }
  std::string out;
  auto add_line = [&](auto&& text_of) {
    std::string line;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const std::string& text = text_of(c);
      std::string blanks(widths[c] - width_of(text), ' ');
      if (c > 0) line += "  ";
      line += right[c] ? blanks + text : text + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  std::vector<std::string> rules;
  for (size_t width : widths) rules.emplace_back(width, '-');
  add_line([&](size_t c) -> const std::string& { return columns_[c].title; });
  add_line([&](size_t c) -> const std::string& { return rules[c]; });
  for (const auto& row : rows_) add_line([&](size_t c) -> const std::string& { return row[c].text; });
  return out;
}

std::string Table::to_csv() const {
  std::string out;
  auto add_record = [&](auto&& field_of) {
    for (size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) out += ',';
      out += csv_field(field_of(c));
    }
    out += "\r\n";
  };
  add_record([&](size_t c) { return Json(columns_[c].key); });
  for (const auto& row : rows_) add_record([&](size_t c) { return row[c].value; });
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
  print_out(common.csv ? to_csv() : to_text());
}

}  // namespace fk
