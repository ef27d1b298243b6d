// Elements of arrays inside the text of a statement: which array, at which place, and whether neighbours of i are
// neighbours in memory, so that a thread can load several at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

// "x0_p[l0 * x0_s0 + i]" in a text.
struct ElementText {
  size_t begin = 0, end = 0;  // in the text
  std::string array;          // "x0_p"
  std::string index;          // "l0 * x0_s0 + i"
};

// Elements whose array `is_array` names, outermost first; those inside of an index are not listed.
std::vector<ElementText> elements_in(const std::string& text, const std::function<bool(std::string_view)>& is_array);

// Whether the name stands in the text as a word of its own.
bool has_word(std::string_view text, std::string_view word);
// All words of a text that `replacement` has another text for; empty: the word stays.
std::string with_words(const std::string& text, const std::function<std::string(std::string_view)>& replacement);

// An index as a function of i.
struct IndexOfI {
  enum class Kind : uint8_t {
    kFixed,  // i is not in it
    kPlusI,  // something plus i
    kOther,
  };
  Kind kind = Kind::kOther;
  int64_t multiple =
      1;  // the largest power of two, at most 8, that what is added to i is a multiple of, if strides are
};
IndexOfI index_of_i(const std::string& index);

}  // namespace fk
