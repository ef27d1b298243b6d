// BlockPool: the blocks of the KV cache by number, with a count of owners each, and the prefix cache. It knows no
// memory and no sequences.
//
// Prefix cache: a block whose page is full can be kept under (the prefix before the page, the tokens of the page). A
// prefix has a number of its own that is never given out again, so equal keys mean equal tokens from the first one on:
// keys are compared whole, and a collision of hashes cannot give wrong keys and values. A kept block without owners
// stays until its memory is needed; the one that lost its last owner first goes first. A page whose prefix is gone
// cannot be found any more, and goes the same way.
//
// Every function takes constant time for a page of constant size.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

namespace fk {

// The tokens of whole pages from the start of a sequence on.
using PrefixId = uint64_t;
inline constexpr PrefixId kEmptyPrefix = 0;

class BlockPool {
 public:
  BlockPool(int64_t blocks, int64_t page_size);
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  int64_t total() const { return static_cast<int64_t>(blocks_.size()); }
  int64_t available() const { return static_cast<int64_t>(free_.size()) + unowned_; }  // that take() can give
  int64_t used() const { return total() - available(); }                               // that have an owner
  int64_t owners(int32_t block) const { return at(block).owners; }
  bool kept(int32_t block) const { return at(block).prefix != kEmptyPrefix; }

  // A block with one owner and without content; there must be one.
  int32_t take();
  void share(int32_t block);    // one owner more, of a block that has owners or is kept
  void release(int32_t block);  // one owner less

  struct Found {
    int32_t block = -1;  // negative: not in the cache
    PrefixId prefix = kEmptyPrefix;
  };
  // The block that holds this page after this prefix, and the prefix that ends with it.
  Found find(PrefixId before, std::span<const int64_t> page) const;
  // Keeps an owned block as the one that holds this page after this prefix. If another block does already, that one
  // stays the only one that is found. Returns the prefix that ends with the page.
  PrefixId keep(int32_t block, PrefixId before, std::span<const int64_t> page);

  // A kept block that has owners is not found any more, and has no content when they release it.
  void forget(int32_t block);

  static uint64_t hash(PrefixId before, std::span<const int64_t> page);

  // FK_CHECKs that every block is in exactly one place and has the given number of owners. For tests.
  void check(std::span<const int64_t> owners) const;

 private:
  struct Block {
    int64_t owners = 0;
    PrefixId prefix = kEmptyPrefix;  // that ends with its page; kEmptyPrefix: not kept
    PrefixId before = kEmptyPrefix;
    int32_t previous = -1, next = -1;  // in the list of kept blocks without owners, by the time they lost the last one
  };
  struct Key {
    PrefixId before;
    std::span<const int64_t> page;
  };
  struct Hash {
    using is_transparent = void;
    const BlockPool* pool;
    size_t operator()(const Key& key) const { return hash(key.before, key.page); }
    size_t operator()(int32_t block) const { return (*this)(pool->key(block)); }
  };
  struct Equal {
    using is_transparent = void;
    const BlockPool* pool;
    static bool same(const Key& a, const Key& b);
    bool operator()(int32_t a, int32_t b) const { return a == b; }
    bool operator()(const Key& a, int32_t b) const { return same(a, pool->key(b)); }
    bool operator()(int32_t a, const Key& b) const { return same(pool->key(a), b); }
  };

  Block& at(int32_t block) { return blocks_[static_cast<size_t>(block)]; }
  const Block& at(int32_t block) const { return blocks_[static_cast<size_t>(block)]; }
  Key key(int32_t block) const;
  void append_unowned(int32_t block);
  void remove_unowned(int32_t block);

  size_t page_size_;
  std::vector<Block> blocks_;
  std::unique_ptr<int64_t[]> tokens_;  // of the kept pages, [blocks, page size]; gets memory where it is used
  std::vector<int32_t> free_;          // not kept and without owners; last in, first out
  int32_t oldest_ = -1, newest_ = -1;
  int64_t unowned_ = 0;  // kept blocks without owners
  PrefixId last_prefix_ = kEmptyPrefix;
  std::unordered_set<int32_t, Hash, Equal> kept_;
};

}  // namespace fk
