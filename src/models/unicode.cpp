#include "models/unicode.h"

#include <algorithm>
#include <vector>

namespace fk::unicode {
namespace {

struct CombiningRange {
  char32_t first, last;
  uint8_t combining_class;
};
struct Decomposition {
  char32_t c, first, second;  // second is 0 if the character decomposes to one character
};
struct Composition {
  char32_t first, second, c;
};

struct CaseMapping {
  char32_t c;
  Mapped to;
};

#include <unicode_tables.inc>  // written by the build

static_assert(std::size(kCategoryNames) == 30 && std::size(kPageOf) == 0x1100);

enum Property : uint8_t { kCategoryBits = 0x1F, kNfcBit = 0x20, kWordBit = 0x40, kSpaceBit = 0x80 };

uint8_t properties(char32_t c) { return kProperties[kPageOf[c >> 8] * 256u + (c & 0xFF)]; }

uint8_t combining_class(char32_t c) {
  if (!(properties(c) & kNfcBit)) return 0;
  auto it = std::ranges::lower_bound(kCombining, c, {}, &CombiningRange::last);
  return it != std::end(kCombining) && it->first <= c ? it->combining_class : uint8_t{0};
}

// Hangul syllables are composed by arithmetic (The Unicode Standard, section 3.12).
constexpr char32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr char32_t kLCount = 19, kVCount = 21, kTCount = 28, kSCount = kLCount * kVCount * kTCount;

void decompose(char32_t c, std::u32string& out) {
  if (c >= kSBase && c < kSBase + kSCount) {
    char32_t s = c - kSBase;
    out.push_back(kLBase + s / (kVCount * kTCount));
    out.push_back(kVBase + s % (kVCount * kTCount) / kTCount);
    if (s % kTCount) out.push_back(kTBase + s % kTCount);
    return;
  }
  auto it = std::ranges::lower_bound(kDecompositions, c, {}, &Decomposition::c);
  if (it == std::end(kDecompositions) || it->c != c) {
    out += c;
    return;
  }
  decompose(it->first, out);
  if (it->second) out += it->second;  // the second half never decomposes further
}

// 0 where the two do not compose.
char32_t compose(char32_t first, char32_t second) {
  if (first - kLBase < kLCount && second - kVBase < kVCount)
    return kSBase + ((first - kLBase) * kVCount + (second - kVBase)) * kTCount;
  if (first - kSBase < kSCount && (first - kSBase) % kTCount == 0 && second - kTBase - 1 < kTCount - 1)
    return first + (second - kTBase);
  auto it = std::ranges::lower_bound(kCompositions, std::pair(first, second), {},
                                     [](const Composition& x) { return std::pair(x.first, x.second); });
  bool found = it != std::end(kCompositions) && it->first == first && it->second == second;
  return found ? it->c : char32_t{0};
}

void order_marks(std::u32string& text) {
  for (auto it = text.begin(); it != text.end();) {
    if (combining_class(*it) == 0) {
      ++it;
      continue;
    }
    auto end = std::find_if(it, text.end(), [](char32_t c) { return combining_class(c) == 0; });
    std::stable_sort(it, end, [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
    it = end;
  }
}

std::u32string compose_all(const std::u32string& text) {
  constexpr size_t kNone = static_cast<size_t>(-1);
  std::u32string out;
  size_t starter = kNone;
  uint8_t last_class = 0;
  for (char32_t c : text) {
    uint8_t cc = combining_class(c);
    bool blocked = last_class != 0 && last_class >= cc;
    if (starter != kNone && !blocked) {
      if (char32_t both = compose(out[starter], c)) {
        out[starter] = both;
        continue;
      }
    }
    if (cc == 0) starter = out.size();
    last_class = cc;
    out += c;
  }
  return out;
}

}  // namespace

void append_utf8(std::string& out, char32_t c) {
  auto put = [&](char32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

void Utf8Repair::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_;
    joined += bytes;
    held_.clear();
    bytes = joined;
  }
  auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  size_t valid_from = 0, i = 0;
  while (i < bytes.size()) {
    unsigned lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    size_t size = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    // After four of the lead bytes the range of the second byte is smaller: no overlong forms, no surrogates, nothing
    // above U+10FFFF.
    unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    size_t good = 1;
    while (good < size && i + good < bytes.size() && byte(i + good) >= low && byte(i + good) <= high) {
      ++good;
      low = 0x80;
      high = 0xBF;
    }
    if (good == size) {
      i += size;
      continue;
    }
    if (size > 0 && i + good == bytes.size()) break;
    out += bytes.substr(valid_from, i - valid_from);
    out += kReplacement;
    i += good;
    valid_from = i;
  }
  out += bytes.substr(valid_from, i - valid_from);
  held_ = bytes.substr(i);
}

void Utf8Repair::finish(std::string& out) {
  if (!held_.empty()) out += kReplacement;
  held_.clear();
}

std::string repair_utf8(std::string_view bytes) {
  Utf8Repair repair;
  std::string out;
  out.reserve(bytes.size());
  repair.push(bytes, out);
  repair.finish(out);
  return out;
}

uint32_t category_bit(char32_t c) { return 1u << (properties(c) & kCategoryBits); }

uint32_t category_mask(std::string_view name) {
  uint32_t mask = 0;
  for (size_t i = 0; i < std::size(kCategoryNames); ++i)
    if (!name.empty() && (kCategoryNames[i] == name || kCategoryNames[i].substr(0, 1) == name)) mask |= 1u << i;
  return mask;
}

bool is_space(char32_t c) { return properties(c) & kSpaceBit; }
bool is_word(char32_t c) { return properties(c) & kWordBit; }

std::string nfc(std::string_view text) {
  std::u32string decomposed;
  bool unchanged = true;
  for (size_t i = 0; i < text.size() && unchanged;) {
    Decoded d = decode_at(text, i);
    unchanged = !(properties(d.c) & kNfcBit);
    i += d.size;
  }
  if (unchanged) return std::string(text);
  for (size_t i = 0; i < text.size();) {
    Decoded d = decode_at(text, i);
    decompose(d.c, decomposed);
    i += d.size;
  }
  order_marks(decomposed);
  std::string out;
  out.reserve(text.size());
  for (char32_t c : compose_all(decomposed)) append_utf8(out, c);
  return out;
}

bool is_regex_word(char32_t c) { return is_word(c) && c != 0x200C && c != 0x200D; }
bool is_regex_word_alone(char32_t c) {
  return is_regex_word(c) || std::ranges::find(kMoreWordAlone, c) != std::end(kMoreWordAlone);
}

std::span<const Fold> folds() { return kFolds; }
std::span<const LongFold> long_folds() { return kLongFolds; }

namespace {
Mapped mapped(std::span<const CaseMapping> table, char32_t c) {
  auto it = std::ranges::lower_bound(table, c, {}, &CaseMapping::c);
  return it != table.end() && it->c == c ? it->to : Mapped{c, 0, 0};
}
}  // namespace

Mapped upper_case(char32_t c) { return mapped(kUpper, c); }
Mapped lower_case(char32_t c) { return mapped(kLower, c); }
Mapped title_case(char32_t c) { return mapped(kTitle, c); }

}  // namespace fk::unicode
