// The decoder of a tokenizer file (tokens to text), as stages that pass text on as soon as it is final.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "models/tokenizer_json.h"
#include "models/tokenizer_normalizer.h"

namespace fk {

// One step of a decoder, as the file states it. Each maps a list of tokens to a list of tokens.
struct ByteFallbackDecoder {};  // runs of <0xXX> become the text they spell, or a U+FFFD per byte where they spell none
struct ByteLevelDecoder {};     // all tokens become one text, through the byte-level alphabet
struct FuseDecoder {};          // all tokens become one
struct StripDecoder {           // takes up to `start` and `stop` times `content` off the ends of each token
  std::string content;
  size_t start, stop;
};
struct MetaspaceDecoder {  // `replacement` becomes a space; in the first token nothing, where a space had been
                           // prepended
  std::string replacement;
  bool prepended;
};
struct JoinDecoder {};  // used if a file has no decoder: tokens joined with spaces
using DecoderStep = std::variant<ReplaceStep, ByteFallbackDecoder, ByteLevelDecoder, FuseDecoder, StripDecoder,
                                 MetaspaceDecoder, JoinDecoder>;

std::vector<DecoderStep> read_decoder(const JsonNode& root);

// Takes tokens one by one and returns the text that no later token can change. Never splits a UTF-8 character.
class Detokenizer {
 public:
  explicit Detokenizer(const std::vector<DecoderStep>& steps);
  ~Detokenizer();
  Detokenizer(Detokenizer&&) noexcept;
  Detokenizer& operator=(Detokenizer&&) noexcept;

  void push(std::string_view token);
  void finish();
  // The text that became final since the last call.
  std::string take();

  class Stage;

 private:
  std::unique_ptr<std::string> text_;
  std::vector<std::unique_ptr<Stage>> stages_;  // first to last; the last one writes text_
};

}  // namespace fk
