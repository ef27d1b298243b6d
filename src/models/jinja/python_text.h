// Text as Python treats it: characters are code points, white space is Unicode's, numbers and quotes as repr() has
// them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fk::jinja {

int64_t count_characters(std::string_view text);
bool is_space(char32_t c);
// Without the characters of `chars` at its ends; white space where `chars` is null.
std::string strip(std::string_view text, bool left, bool right, const std::string_view* chars = nullptr);
// At each `separator`, or at runs of white space where it is null. At most `limit` times, from the left or the right;
// negative: no limit.
std::vector<std::string> split(std::string_view text, const std::string_view* separator, int64_t limit,
                               bool from_right = false);
std::vector<std::string> split_lines(std::string_view text, bool keep_ends = false);
std::string replace_all(std::string_view text, std::string_view old, std::string_view with, int64_t limit);

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string capitalize(std::string_view text);  // the first character upper, the others lower
std::string title_case(std::string_view text);  // every word capitalised, as the filter `title` does it

std::string html_escaped(std::string_view text);
std::string python_float(double value);
std::string python_quoted(std::string_view text);

}  // namespace fk::jinja
