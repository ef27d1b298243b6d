// Added tokens: texts such as <|eot_id|> that become one id wherever they occur, before any other step.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/tokenizer_json.h"
#include "models/tokenizer_normalizer.h"

namespace fk {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  std::string text;      // the text it is matched by and decoded to: the content, normalized where `normalized` says so
  bool special = false;  // left out by decode(skip_special_tokens)
  bool normalized = false;   // matched in the normalized text instead of the raw one
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // includes the whitespace before it
  bool rstrip = false;       // includes the whitespace after it
};

std::vector<AddedToken> read_added_tokens(const JsonNode& root, const Normalizer& normalizer);

// Finds added tokens in text: leftmost first, the longest of those that start together.
class AddedTokenFinder {
 public:
  // Searches for the tokens that are matched in normalized text, or for the others.
  AddedTokenFinder(const std::vector<AddedToken>& tokens, bool normalized);

  struct Part {
    size_t begin, end;
    int32_t id;  // -1 for text between tokens
  };
  std::vector<Part> split(std::string_view text) const;

 private:
  // The longest token that `text` starts with, or null.
  const AddedToken* longest_prefix(std::string_view text) const;

  std::vector<AddedToken> tokens_;          // sorted by text, each text once
  std::array<uint32_t, 257> first_byte_{};  // tokens_[first_byte_[b] .. first_byte_[b + 1]) start with byte b
};

}  // namespace fk
