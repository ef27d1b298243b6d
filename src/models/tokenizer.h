// Text to token ids and back, by a Hugging Face tokenizer.json: byte-level BPE and BPE with byte fallback.
//
// Gives the same ids and text as the `tokenizers` library. Text that is not UTF-8, which that library does not accept,
// is read like Python with errors='replace'.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/detokenizer.h"

namespace fk {

struct TokenizerFile;

class Tokenizer {
 public:
  // Throw Error where the file is broken or asks for something unsupported; `what` names the text in errors.
  static Tokenizer from_file(const std::string& path);
  static Tokenizer from_json(std::string_view text, std::string_view what);
  // From what such a file would hold.
  static Tokenizer from_parts(TokenizerFile file);

  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens) const;
  // Ids without a token are left out.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  // One more than the largest id.
  int64_t vocab_size() const;
  std::optional<int32_t> token_id(std::string_view token) const;

 private:
  friend class StreamDecoder;
  struct Parts;

  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const Parts> parts_;  // never changes, so that copies and threads may share it
};

// Decodes ids as they come. The texts of all steps and of finish(), joined, are decode() of all ids.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens);

  // The text that became final. Never splits a UTF-8 character.
  std::string step(int32_t id);
  // The rest of the text; an incomplete character becomes U+FFFD.
  std::string finish();

 private:
  std::shared_ptr<const Tokenizer::Parts> parts_;
  bool skip_special_tokens_;
  Detokenizer detokenizer_;
};

}  // namespace fk
