// Table: rows a verb prints as aligned text for people, or the same rows exactly as JSON or CSV for programs.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options.h"
#include "cli/terminal.h"
#include "core/json.h"
#include "core/printable.h"

namespace fk {

// What a program reads (`value`, exact) and what a person reads (`text`, rounded).
struct Cell {
  Json value;
  std::string text;

  Cell() : text("-") {}                                                   // nothing known: null in JSON, empty in CSV
  Cell(std::string_view words) : value(words), text(printable(words)) {}  // NOLINT: words are a cell
  Cell(const std::string& words) : Cell(std::string_view(words)) {}       // NOLINT
  Cell(const char* words) : Cell(std::string_view(words)) {}              // NOLINT
  Cell(double number, int decimals);                                      // a number that is not finite is unknown
  Cell(std::optional<double> number, int decimals) : Cell() {
    if (number) *this = Cell(*number, decimals);
  }
  Cell(Json exact, std::string shown) : value(std::move(exact)), text(std::move(shown)) {}
  template <std::integral Int>
  Cell(Int number) : value(number), text(value.dump()) {}  // NOLINT: a number is a cell
};

// One line of a CSV file as RFC 4180 has it, with the end of the line.
std::string csv_record(const std::vector<Json>& fields);

class Table {
 public:
  struct Column {
    std::string key;     // in JSON and CSV: snake_case with its unit, "time_ns"
    std::string title;   // for people
    bool whole = false;  // its words are never broken, so that they can be copied: ids, names
    int expendable = 0;  // above 0: left out of a text that is too wide, the largest first
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add_row(std::vector<Cell> cells);  // one per column
  size_t rows() const { return rows_.size(); }

  // Numbers to the right, words to the left, no trailing blanks. Words that do not fit the terminal go on below; if
  // that is not enough, columns are left out and named in a last line.
  std::string to_text(const TextStyle& style = style_of(1)) const;
  std::string to_csv() const;  // RFC 4180: CRLF line ends, a header row of keys
  Json to_json() const;        // an array of one object per row

  // Prints in the format of the flags. JSON is only the array; a verb with more data builds its own object.
  void print(const CommonOptions& common) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace fk
