// The alphabet of byte-level tokenizers: every byte as one printable character (0x20 is 'Ġ', 0x0A is 'Ċ').
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace fk {

// Each byte of `text` as its character.
void append_byte_characters(std::string_view text, std::string& out);

// The byte of a character, if it has one.
std::optional<unsigned char> byte_of_character(char32_t c);

}  // namespace fk
