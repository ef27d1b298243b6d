#include "engine/block_pool.h"

#include <algorithm>

#include "core/check.h"

namespace fk {

BlockPool::BlockPool(int64_t blocks, int64_t page_size)
    : page_size_(static_cast<size_t>(page_size)),
      blocks_(static_cast<size_t>(blocks)),
      tokens_(std::make_unique_for_overwrite<int64_t[]>(static_cast<size_t>(blocks * page_size))),
      kept_(0, Hash{this}, Equal{this}) {
  FK_CHECK(blocks > 0 && page_size > 0);
  kept_.reserve(blocks_.size());
  free_.reserve(blocks_.size());
  for (int64_t i = blocks - 1; i >= 0; --i) free_.push_back(static_cast<int32_t>(i));
}

uint64_t BlockPool::hash(PrefixId before, std::span<const int64_t> page) {
  // Multiply and fold: every bit of a token reaches every bit of the hash. Only speed depends on it.
  uint64_t h = before * 0x9E3779B97F4A7C15u + 1;
  for (int64_t token : page) {
    h = (h ^ static_cast<uint64_t>(token)) * 0xD6E8FEB86659FD93u;
    h ^= h >> 32;
  }
  return h;
}

bool BlockPool::Equal::same(const Key& a, const Key& b) {
  return a.before == b.before && std::equal(a.page.begin(), a.page.end(), b.page.begin(), b.page.end());
}

BlockPool::Key BlockPool::key(int32_t block) const {
  return {at(block).before, {&tokens_[static_cast<size_t>(block) * page_size_], page_size_}};
}

void BlockPool::append_unowned(int32_t block) {
  Block& b = at(block);
  b.previous = newest_;
  b.next = -1;
  (newest_ < 0 ? oldest_ : at(newest_).next) = block;
  newest_ = block;
  ++unowned_;
}

void BlockPool::remove_unowned(int32_t block) {
  Block& b = at(block);
  (b.previous < 0 ? oldest_ : at(b.previous).next) = b.next;
  (b.next < 0 ? newest_ : at(b.next).previous) = b.previous;
  b.previous = b.next = -1;
  --unowned_;
}

int32_t BlockPool::take() {
  FK_CHECK(available() > 0, "no block is free");
  int32_t block;
  if (!free_.empty()) {
    block = free_.back();
    free_.pop_back();
  } else {
    block = oldest_;
    remove_unowned(block);
    kept_.erase(block);
    at(block).prefix = kEmptyPrefix;
  }
  at(block).owners = 1;
  return block;
}

void BlockPool::share(int32_t block) {
  Block& b = at(block);
  FK_CHECK(b.owners > 0 || b.prefix != kEmptyPrefix, "a free block has no content to share");
  if (b.owners++ == 0) remove_unowned(block);
}

void BlockPool::release(int32_t block) {
  Block& b = at(block);
  FK_CHECK(b.owners > 0, "a block is released more often than it was taken");
  if (--b.owners > 0) return;
  if (b.prefix != kEmptyPrefix)
    append_unowned(block);
  else
    free_.push_back(block);
}

BlockPool::Found BlockPool::find(PrefixId before, std::span<const int64_t> page) const {
  auto found = kept_.find(Key{before, page});
  if (found == kept_.end()) return {};
  return {*found, at(*found).prefix};
}

PrefixId BlockPool::keep(int32_t block, PrefixId before, std::span<const int64_t> page) {
  Block& b = at(block);
  FK_CHECK(b.owners > 0 && b.prefix == kEmptyPrefix && page.size() == page_size_);
  if (Found other = find(before, page); other.block >= 0) return other.prefix;
  b.before = before;
  b.prefix = ++last_prefix_;
  std::copy(page.begin(), page.end(), &tokens_[static_cast<size_t>(block) * page_size_]);
  kept_.insert(block);
  return b.prefix;
}

void BlockPool::forget(int32_t block) {
  FK_CHECK(at(block).owners > 0 && kept(block));
  kept_.erase(block);
  at(block).prefix = kEmptyPrefix;
}

void BlockPool::check(std::span<const int64_t> owners) const {
  FK_CHECK(owners.size() == blocks_.size());
  std::vector<bool> seen(blocks_.size());
  auto visit = [&](int32_t block) {
    FK_CHECK(!seen[static_cast<size_t>(block)], "a block is in two places");
    FK_CHECK(at(block).owners == 0);
    seen[static_cast<size_t>(block)] = true;
  };
  for (int32_t block : free_) {
    visit(block);
    FK_CHECK(at(block).prefix == kEmptyPrefix);
  }
  int64_t listed = 0;
  for (int32_t block = oldest_, previous = -1; block >= 0; previous = block, block = at(block).next, ++listed) {
    visit(block);
    FK_CHECK(at(block).previous == previous && at(block).prefix != kEmptyPrefix);
  }
  FK_CHECK(listed == unowned_);
  size_t kept = 0;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    FK_CHECK(blocks_[i].owners == owners[i], "a block has another number of owners than sequences that use it");
    FK_CHECK(seen[i] == (owners[i] == 0), "a block is lost");
    if (blocks_[i].prefix != kEmptyPrefix) {
      ++kept;
      FK_CHECK(kept_.contains(static_cast<int32_t>(i)));
    }
  }
  FK_CHECK(kept == kept_.size());
}

}  // namespace fk
