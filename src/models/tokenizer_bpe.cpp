#include "models/tokenizer_bpe.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "models/in_quotes.h"
#include "models/unicode.h"

namespace fk {
namespace {

constexpr uint32_t kEnd = UINT32_MAX;
constexpr int32_t kNone = -1;
constexpr char32_t kLowCharacters = 0x800;

void require_empty(const JsonNode& model, std::string_view key) {
  auto node = model.find(key);
  if (node && !node->string().empty()) throw Error("{} is set, which is not supported.", node->path());
}

}  // namespace

void BpeModel::MergeTable::reserve(size_t count) {
  entries_.assign(std::bit_ceil(2 * count + 1), std::pair(kEmpty, Merge{}));
}

size_t BpeModel::MergeTable::place(uint64_t key) const {
  size_t mask = entries_.size() - 1;
  size_t at = (key * 0x9E3779B97F4A7C15u >> 20) & mask;
  while (entries_[at].first != key && entries_[at].first != kEmpty) at = (at + 1) & mask;
  return at;
}

void BpeModel::MergeTable::set(int32_t left, int32_t right, Merge merge) {
  uint64_t key = static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  entries_[place(key)] = {key, merge};
}

const BpeModel::Merge* BpeModel::MergeTable::find(int32_t left, int32_t right) const {
  const auto& entry = entries_[place(static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right))];
  return entry.first == kEmpty ? nullptr : &entry.second;
}

BpeModel::BpeModel(const JsonNode& model, TokenizerFile& file) {
  // Files from before this field existed are all BPE.
  if (auto type = model.find("type"); type && type->string() != "BPE") model.unsupported("model", "BPE");
  require_empty(model, "continuing_subword_prefix");
  require_empty(model, "end_of_word_suffix");
  if (auto dropout = model.find("dropout"); dropout && dropout->number() != 0)
    throw Error("{} is not 0, which would make the tokens random.", dropout->path());
  fuse_unk_ = model.boolean_or("fuse_unk", false);
  byte_fallback_ = model.boolean_or("byte_fallback", false);
  ignore_merges_ = model.boolean_or("ignore_merges", false);
  if (auto unk = model.find("unk_token")) unk_token_ = unk->string();
  read_vocab(model, file);
  read_merges(model, file);
}

void BpeModel::read_vocab(const JsonNode& model, TokenizerFile& file) {
  if (!file.vocab) model.at("vocab").fail("an object from token to id");
  int64_t last = -1;
  for (const auto& [token, id] : *file.vocab) {
    if (id < 0 || id >= kMaxTokenIds)
      throw Error("{}.vocab gives the token {} the id {}; ids run from 0 to {}.", model.path(), in_quotes(token), id,
                  kMaxTokenIds - 1);
    last = std::max(last, id);
  }
  tokens_.resize(static_cast<size_t>(last + 1));
  low_characters_.assign(kLowCharacters, kNone);
  vocab_.reserve(file.vocab->size());
  for (auto& [token, id] : *file.vocab) {
    auto [it, added] = vocab_.emplace(std::move(token), static_cast<int32_t>(id));
    if (!added) throw Error("{}.vocab holds the token {} twice.", model.path(), in_quotes(it->first));
    std::string_view& place = tokens_[static_cast<size_t>(id)];
    if (place.data())
      throw Error("{}.vocab gives the id {} to both {} and {}.", model.path(), id, in_quotes(place),
                  in_quotes(it->first));
    place = it->first;
    if (place.empty()) continue;
    auto first = unicode::decode_at(place, 0);
    if (first.size == place.size() && first.c < kLowCharacters) low_characters_[first.c] = it->second;
  }
  file.vocab->clear();
  for (unsigned b = 0; byte_fallback_ && b < 256; ++b) bytes_[b] = id(fmt::format("<0x{:02X}>", b)).value_or(kNone);
}

void BpeModel::read_merges(const JsonNode& model, TokenizerFile& file) {
  if (!file.merges) model.at("merges").fail("an array of pairs of tokens");
  merges_.reserve(file.merges->size());
  auto need = [&](const std::string& token, size_t rank) {
    if (auto found = id(token)) return *found;
    throw Error("{}.merges[{}] needs the token {}, which is not in the vocabulary.", model.path(), rank,
                in_quotes(token));
  };
  for (size_t rank = 0; rank < file.merges->size(); ++rank) {
    const auto& [left, right] = (*file.merges)[rank];
    int32_t left_id = need(left, rank), right_id = need(right, rank);
    merges_.set(left_id, right_id, {static_cast<uint32_t>(rank), need(left + right, rank)});
  }
  file.merges->clear();
}

std::optional<int32_t> BpeModel::id(std::string_view token) const {
  auto it = vocab_.find(token);
  if (it == vocab_.end()) return std::nullopt;
  return it->second;
}

void BpeModel::encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const {
  if (ignore_merges_) {
    if (auto whole = id(word)) {
      out.push_back(*whole);
      return;
    }
  }
  split_into_characters(word, scratch);
  merge_all(scratch);
  for (const auto& symbol : scratch.symbols_)
    if (!symbol.merged_away) out.push_back(symbol.id);
}

// A pending unknown token and byte tokens are output in the order of the tokenizers library.
void BpeModel::split_into_characters(std::string_view word, Scratch& scratch) const {
  auto& symbols = scratch.symbols_;
  symbols.clear();
  auto add = [&](int32_t id) { symbols.push_back({id, kEnd, kEnd, false}); };
  int32_t unknown = kNone;
  for (size_t at = 0; at < word.size();) {
    auto d = unicode::decode_at(word, at);
    std::string_view character = word.substr(at, d.size);
    at += d.size;
    int32_t known = d.c < kLowCharacters ? low_characters_[d.c] : id(character).value_or(kNone);
    if (known != kNone) {
      if (unknown != kNone) add(unknown);
      unknown = kNone;
      add(known);
      continue;
    }
    if (byte_fallback_ && fall_back_to_bytes(character, scratch)) continue;
    if (!unk_token_) continue;
    if (unknown != kNone && fuse_unk_) continue;
    if (unknown != kNone) add(unknown);
    unknown = id(*unk_token_).value_or(kNone);
    if (unknown == kNone)
      throw Error("The text holds {}, which the vocabulary lacks, as it lacks the unk_token {}.", in_quotes(character),
                  in_quotes(*unk_token_));
  }
  if (unknown != kNone) add(unknown);
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = i == 0 ? kEnd : i - 1;
    symbols[i].next = i + 1 == symbols.size() ? kEnd : i + 1;
  }
}

bool BpeModel::fall_back_to_bytes(std::string_view character, Scratch& scratch) const {
  auto id_of = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
  if (std::ranges::any_of(character, [&](char byte) { return id_of(byte) == kNone; })) return false;
  for (char byte : character) scratch.symbols_.push_back({id_of(byte), kEnd, kEnd, false});
  return true;
}

// Always the merge of lowest rank, the leftmost of equals: O(n log n) in the length of the word.
void BpeModel::merge_all(Scratch& scratch) const {
  auto& symbols = scratch.symbols_;
  auto& queue = scratch.queue_;
  auto later = [](const Scratch::Candidate& a, const Scratch::Candidate& b) {
    return std::pair(a.rank, a.at) > std::pair(b.rank, b.at);
  };
  auto propose = [&](uint32_t at) {
    uint32_t next = symbols[at].next;
    if (next == kEnd) return false;
    const Merge* merge = merges_.find(symbols[at].id, symbols[next].id);
    if (merge) queue.push_back({merge->rank, at, merge->id});
    return merge != nullptr;
  };
  queue.clear();
  for (uint32_t i = 0; i < symbols.size(); ++i) propose(i);
  std::ranges::make_heap(queue, later);
  while (!queue.empty()) {
    std::ranges::pop_heap(queue, later);
    Scratch::Candidate top = queue.back();
    queue.pop_back();
    auto& left = symbols[top.at];
    if (left.merged_away || left.next == kEnd) continue;
    auto& right = symbols[left.next];
    // A candidate is stale if a neighbour has changed since it was added.
    const Merge* merge = merges_.find(left.id, right.id);
    if (!merge || merge->id != top.id) continue;
    left.id = merge->id;
    right.merged_away = true;
    left.next = right.next;
    if (right.next != kEnd) symbols[right.next].previous = top.at;
    if (left.previous != kEnd && propose(left.previous)) std::ranges::push_heap(queue, later);
    if (propose(top.at)) std::ranges::push_heap(queue, later);
  }
}

}  // namespace fk
