#include "cli/table_layout.h"

#include <algorithm>
#include <string_view>

#include "cli/text_width.h"
#include "core/check.h"
#include "core/printable.h"

namespace fk {
namespace {

constexpr size_t kGap = 2;        // blanks between columns
constexpr size_t kReadable = 12;  // no column of words is made narrower than this, or than its title
constexpr size_t kIndent = 2;     // of lines below the first column

std::string painted(const std::string& text, Tone tone) {
  constexpr std::string_view kCodes[] = {"", "\033[32m", "\033[36m", "\033[31m"};
  std::string_view code = kCodes[static_cast<size_t>(tone)];
  return code.empty() ? text : std::string(code) + text + "\033[0m";
}

size_t total_width(const std::vector<TableLayout::Column>& columns) {
  size_t total = 0;
  for (const TableLayout::Column& c : columns) total += c.width + kGap;
  return total - std::min(total, kGap);
}

// Makes the widest wrapped columns narrower until they fit, but not narrower than is readable.
void narrow(std::vector<TableLayout::Column>& columns, size_t available, bool break_words) {
  auto narrowest = [&](const TableLayout::Column& c) {
    return std::max({kReadable, text_width(c.title), c.whole || !break_words ? c.longest_word : 0});
  };
  while (total_width(columns) > available) {
    TableLayout::Column* widest = nullptr;
    for (TableLayout::Column& c : columns)
      if (c.wrapped && c.width > narrowest(c) && (widest == nullptr || c.width > widest->width)) widest = &c;
    if (widest == nullptr) return;
    --widest->width;
  }
}

}  // namespace

TableLayout::TableLayout(std::vector<Column> columns, const TextStyle& style)
    : columns_(std::move(columns)), places_(columns_.size()), style_(style) {
  for (Column& c : columns_) c.width = std::max(c.width, text_width(c.title));
  arrange(0, 0);
}

TableLayout TableLayout::wrapping(std::vector<Column> columns, const TextStyle& style) {
  TableLayout layout(std::move(columns), style);
  if (style.columns == 0) return layout;
  const std::vector<Column> all = layout.columns_;
  auto fit = [&](bool break_words) {
    std::vector<Column> shown;
    for (size_t c = 0; c < all.size(); ++c)
      if (layout.places_[c].shown) shown.push_back(all[c]);
    narrow(shown, style.columns, false);
    if (break_words) narrow(shown, style.columns, true);
    for (size_t c = 0, next = 0; c < all.size(); ++c)
      if (layout.places_[c].shown) layout.columns_[c] = shown[next++];
    return total_width(shown) <= style.columns;
  };
  while (!fit(false) && layout.drop_most_expendable()) {
  }
  if (!fit(false)) fit(true);
  layout.arrange(0, 0);
  return layout;
}

TableLayout TableLayout::stacking(std::vector<Column> columns, const TextStyle& style) {
  TableLayout layout(std::move(columns), style);
  layout.stacked_ = style.columns > 0 && total_width(layout.columns_) > style.columns;
  if (!layout.stacked_) return layout;
  auto width = [&] {
    size_t end = 0;
    for (size_t c = 1; c < layout.columns_.size(); ++c)
      if (layout.places_[c].shown) end = layout.places_[c].start + layout.columns_[c].width;
    return end;
  };
  for (layout.arrange(1, kIndent); width() > style.columns; layout.arrange(1, kIndent))
    if (!layout.drop_most_expendable()) break;
  return layout;
}

bool TableLayout::drop_most_expendable() {
  int most = 0;
  size_t dropped = 0;
  for (size_t c = 0; c < columns_.size(); ++c)
    if (places_[c].shown && columns_[c].expendable > most) most = columns_[c].expendable, dropped = c;
  if (most > 0) places_[dropped].shown = false;
  return most > 0;
}

std::string TableLayout::left_out() const {
  std::string titles;
  for (size_t c = 0; c < columns_.size(); ++c)
    if (!places_[c].shown) titles += (titles.empty() ? "" : ", ") + columns_[c].title;
  return titles;
}

void TableLayout::arrange(size_t first, size_t indent) {
  size_t start = indent;
  for (size_t c = first; c < columns_.size(); ++c) {
    places_[c].start = start;
    if (places_[c].shown) start += columns_[c].width + kGap;
  }
}

std::string TableLayout::head() const {
  std::vector<TableText> titles, rules;
  for (const Column& c : columns_) {
    titles.push_back({c.title});
    rules.push_back({std::string(c.width, '-')});
  }
  if (!stacked_) return row(titles) + row(rules);
  return row(titles) + line(rules, 1, columns_.size());
}

std::string TableLayout::row(const std::vector<TableText>& cells) const {
  FK_CHECK(cells.size() == columns_.size());
  if (!stacked_) return lines(cells, 0, cells.size());
  return line(cells, 0, 1) + lines(cells, 1, cells.size());
}

std::string TableLayout::lines(const std::vector<TableText>& cells, size_t first, size_t end) const {
  std::vector<std::vector<std::string>> parts(cells.size());
  size_t count = 1;
  for (size_t c = first; c < end; ++c) {
    parts[c] = columns_[c].wrapped ? wrapped_lines(printable(cells[c].text), std::max<size_t>(2, columns_[c].width))
                                   : std::vector{cells[c].text};
    count = std::max(count, parts[c].size());
  }
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    std::vector<TableText> part(cells.size());
    for (size_t c = first; c < end; ++c)
      if (i < parts[c].size()) part[c] = {parts[c][i], cells[c].tone};
    text += line(part, first, end);
  }
  return text;
}

std::string TableLayout::line(const std::vector<TableText>& cells, size_t first, size_t end) const {
  std::string text;
  size_t at = 0;  // columns of the terminal used so far
  for (size_t c = first; c < end; ++c) {
    if (!places_[c].shown || cells[c].text.empty()) continue;
    std::string shown = printable(cells[c].text);
    size_t width = text_width(shown), start = places_[c].start;
    if (columns_[c].right && width < columns_[c].width) start += columns_[c].width - width;
    if (at > 0) start = std::max(start, at + kGap);
    text.append(start - at, ' ');
    text += style_.colour ? painted(shown, cells[c].tone) : shown;
    at = start + width;
  }
  return text + "\n";
}

}  // namespace fk
