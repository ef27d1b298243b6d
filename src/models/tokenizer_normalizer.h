// The normalizer of a tokenizer file: what happens to text before it is split into words.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/tokenizer_json.h"

namespace fk {

// No step may make a text longer than this: offsets are 32 bits wide, and one step can multiply a text by 8.
inline constexpr size_t kMaxTextBytes = size_t{1} << 28;
void require_text_fits(size_t bytes);

struct NfcStep {};

struct PrependStep {
  std::string content;  // not put before empty text
};

struct ReplaceStep {
  std::string pattern, content;  // pattern is plain text, never empty

  std::string apply(std::string_view text) const;
};

// Reads {"type": "Replace", "pattern": {"String": ..}, "content": ..}, which is a normalizer and a decoder.
ReplaceStep read_replace(const JsonNode& node);

class Normalizer {
 public:
  Normalizer() = default;  // changes nothing
  explicit Normalizer(const JsonNode& node);

  std::string apply(std::string_view text) const;

 private:
  std::vector<std::variant<NfcStep, PrependStep, ReplaceStep>> steps_;
};

}  // namespace fk
