// SymbolicSize: an extent of a tensor as a sum of the sizes of a batch and a constant: "T", "S + 1", "T - Sd", "4096".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fk {

// What varies from batch to batch. Everything else is a constant of the model.
enum class SizeSymbol : uint8_t { kTokens, kSequences, kDecoding, kPages, kBlocks, kPageSize, kSlots, kLogits };
inline constexpr size_t kNumSizeSymbols = 8;

std::string_view symbol_name(SizeSymbol symbol);   // "T"
std::string_view symbol_words(SizeSymbol symbol);  // "new tokens of the batch"

// The sizes of one batch.
struct BatchSizes {
  std::array<int64_t, kNumSizeSymbols> of = {};

  int64_t& operator[](SizeSymbol symbol) { return of[static_cast<size_t>(symbol)]; }
  int64_t operator[](SizeSymbol symbol) const { return of[static_cast<size_t>(symbol)]; }
};

struct SymbolicSize {
  int64_t constant = 0;
  std::array<int64_t, kNumSizeSymbols> factors = {};  // of the symbols, in the order of the enumeration

  SymbolicSize() = default;
  SymbolicSize(int64_t value) : constant(value) {}  // NOLINT: a number is a size

  int64_t at(const BatchSizes& sizes) const;
  bool uses(SizeSymbol symbol) const { return factors[static_cast<size_t>(symbol)] != 0; }
  friend bool operator==(const SymbolicSize&, const SymbolicSize&) = default;
};

std::string size_text(const SymbolicSize& size);
// Reads what size_text wrote. Throws Error that quotes any other text.
SymbolicSize parse_size(std::string_view text);

}  // namespace fk
