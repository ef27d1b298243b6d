// The pre-tokenizer of a tokenizer file: splits normalized text into words; merges stay inside a word.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/split_pattern.h"
#include "models/tokenizer_json.h"

namespace fk {

// Words as ranges of one text. A word is `first` if it starts at the start of the user's text.
struct Words {
  struct Range {
    uint32_t begin, end;
    bool first;
  };
  std::string text;
  std::vector<Range> ranges;

  std::string_view operator[](const Range& range) const {
    return std::string_view(text).substr(range.begin, range.end - range.begin);
  }
};

class WordSplitter {
 public:
  WordSplitter() = default;  // all text is one word
  explicit WordSplitter(const JsonNode& node);

  Words split(std::string text, bool first) const;

 private:
  struct Split {
    enum Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
    std::optional<SplitPattern> regex;
    std::string literal;  // where there is no regex
    Behavior behavior = kIsolated;
    bool invert = false;
  };
  struct ByteLevel {
    bool add_prefix_space;
    std::optional<SplitPattern> regex;
  };
  struct Metaspace {
    enum Scheme { kAlways, kFirst, kNever } prepend;
    std::string replacement;
    bool split;
  };

  static Split read_split(const JsonNode& node);
  static Metaspace read_metaspace(const JsonNode& node);
  static void split_range(const Split& step, const Words& words, Words::Range range, std::vector<Words::Range>& out);
  static void apply(const Split& step, Words& words);
  static void apply(const ByteLevel& step, Words& words);
  static void apply(const Metaspace& step, Words& words);

  std::vector<std::variant<Split, ByteLevel, Metaspace>> steps_;
};

// One character as UTF-8, from a JSON string; throws Error where it is more or less than one.
std::string read_character(const JsonNode& node);

}  // namespace fk
