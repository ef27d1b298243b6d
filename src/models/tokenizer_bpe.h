// Byte-pair encoding: turns the characters of a word into token ids with the merges of a tokenizer file.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/tokenizer_file.h"
#include "models/tokenizer_json.h"

namespace fk {

// Ids run from 0 to this, exclusive: four times the largest vocabulary in use, so that a wrong id cannot allocate too
// much memory.
inline constexpr int64_t kMaxTokenIds = int64_t{1} << 20;

class BpeModel {
 public:
  BpeModel(const JsonNode& model, TokenizerFile& file);
  BpeModel(const BpeModel&) = delete;  // tokens_ points into vocab_
  BpeModel(BpeModel&&) = default;

  // Memory reused from word to word.
  class Scratch;

  void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const;

  std::optional<int32_t> id(std::string_view token) const;
  // By id, from 0 to the largest one; a null view where an id has no token.
  const std::vector<std::string_view>& tokens() const { return tokens_; }

 private:
  struct Merge {
    uint32_t rank;
    int32_t id;
  };

  // (left id, right id) -> merge: a hash table with open addressing; its size is a power of two, at most half of it is
  // used.
  class MergeTable {
   public:
    void reserve(size_t count);
    void set(int32_t left, int32_t right, Merge merge);
    const Merge* find(int32_t left, int32_t right) const;

   private:
    static constexpr uint64_t kEmpty = UINT64_MAX;  // ids are never negative, so no pair has this value
    size_t place(uint64_t key) const;
    std::vector<std::pair<uint64_t, Merge>> entries_;
  };

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };

  void read_vocab(const JsonNode& model, TokenizerFile& file);
  void read_merges(const JsonNode& model, TokenizerFile& file);
  void split_into_characters(std::string_view word, Scratch& scratch) const;
  bool fall_back_to_bytes(std::string_view character, Scratch& scratch) const;
  void merge_all(Scratch& scratch) const;

  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> vocab_;
  std::vector<std::string_view> tokens_;
  MergeTable merges_;
  std::vector<int32_t> low_characters_;  // ids of the one-character tokens below U+0800, -1 where there is none
  std::array<int32_t, 256> bytes_{};     // ids of <0x00>..<0xFF>, -1 where there is none
  std::optional<std::string> unk_token_;
  bool fuse_unk_ = false, byte_fallback_ = false, ignore_merges_ = false;
};

class BpeModel::Scratch {
 private:
  friend class BpeModel;
  // The word as a linked list, so that a merge takes constant time.
  struct Symbol {
    int32_t id;
    uint32_t previous, next;
    bool merged_away;
  };
  struct Candidate {
    uint32_t rank, at;
    int32_t id;
  };
  std::vector<Symbol> symbols_;
  std::vector<Candidate> queue_;
};

}  // namespace fk
