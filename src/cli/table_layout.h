// TableLayout: where the columns of a table stand, decided before its rows are known, so that rows can be printed one
// by one.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal.h"

namespace fk {

// What a text says about its subject. Shown as a colour, on terminals only.
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
    bool right = false;       // numbers stand to the right, words to the left
    int expendable = 0;       // above 0: left out where the table is too wide, the largest first
    bool wrapped = false;     // what is wider goes on below; else it moves the rest of its line to the right
    size_t longest_word = 0;  // of one that may be wrapped: made narrower than this only where nothing else helps
  };

  TableLayout(std::vector<Column> columns, const TextStyle& style);

  // Makes the widest of the columns that may be wrapped narrower until the table fits, as far as that can be read.
  static TableLayout wrapping(std::vector<Column> columns, const TextStyle& style);
  // Gives the first column a line of its own where the table does not fit, and then leaves out what is expendable.
  static TableLayout stacking(std::vector<Column> columns, const TextStyle& style);

  std::string head() const;                                    // titles over rules
  std::string row(const std::vector<TableText>& cells) const;  // one per column; empty ones take no room

 private:
  struct Place {
    size_t start = 0;
    bool shown = true;
  };
  void arrange(size_t first, size_t indent);
  std::string line(const std::vector<TableText>& cells, size_t first, size_t end) const;
  std::string lines(const std::vector<TableText>& cells, size_t first, size_t end) const;

  std::vector<Column> columns_;
  std::vector<Place> places_;
  TextStyle style_;
  bool stacked_ = false;
};

}  // namespace fk
