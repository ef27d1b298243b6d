// TableLayout: the positions of a table's columns, chosen before its rows are known, so that rows can be printed one by
// one.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal.h"

namespace fk {

// The meaning of a text. Shown as a colour, on terminals only.
enum class Tone : unsigned char { kPlain, kGood, kEqual, kBad };

struct TableText {
  std::string text;
  Tone tone = Tone::kPlain;
};

class TableLayout {
 public:
  struct Column {
    std::string title;
    size_t width = 0;
    bool right = false;       // numbers are aligned to the right, words to the left
    int expendable = 0;       // above 0: left out where the table is too wide, the largest first
    bool wrapped = false;     // a wider text continues below; else it shifts the rest of its line to the right
    bool whole = false;       // of a wrapped column: its words are never broken
    size_t longest_word = 0;  // of a wrapped column: made narrower than this only as a last resort
  };

  TableLayout(std::vector<Column> columns, const TextStyle& style);

  // Makes the widest wrapped columns narrower until the table fits, but not narrower than is readable; then drops
  // expendable columns; then breaks words.
  static TableLayout wrapping(std::vector<Column> columns, const TextStyle& style);
  // If the table does not fit, puts the first column on a separate line, and then drops expendable columns.
  static TableLayout stacking(std::vector<Column> columns, const TextStyle& style);

  std::string head() const;                                    // titles over rules
  std::string row(const std::vector<TableText>& cells) const;  // one per column; empty cells take no space
  std::string left_out() const;                                // titles of the columns that were dropped: "A, B"

 private:
  struct Place {
    size_t start = 0;
    bool shown = true;
  };
  void arrange(size_t first, size_t indent);
  bool drop_most_expendable();
  std::string line(const std::vector<TableText>& cells, size_t first, size_t end) const;
  std::string lines(const std::vector<TableText>& cells, size_t first, size_t end) const;

  std::vector<Column> columns_;
  std::vector<Place> places_;
  TextStyle style_;
  bool stacked_ = false;
};

}  // namespace fk
