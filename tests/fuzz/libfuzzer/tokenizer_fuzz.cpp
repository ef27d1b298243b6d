// libFuzzer target: any text as tokenizer.json; one that loads encodes and decodes the text of the file itself.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/error.h"
#include "models/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    fk::Tokenizer tokenizer = fk::Tokenizer::from_json(text, "fuzz");
    tokenizer.decode(tokenizer.encode(text.substr(0, 256), true), false);
  } catch (const fk::Error&) {
    return 0;
  }
  return 0;
}
