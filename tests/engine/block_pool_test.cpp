// The pool of blocks: each is taken once, a kept page is found again by its whole prefix and by nothing else, and the
// one that was left longest goes first.
#include "engine/block_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "core/rng.h"

namespace fk {
namespace {

using Tokens = std::vector<int64_t>;

TEST(BlockPool, GivesEveryBlockOnce) {
  BlockPool pool(5, 4);
  std::set<int32_t> taken;
  while (pool.available() > 0) taken.insert(pool.take());
  EXPECT_EQ(taken.size(), 5u);
  EXPECT_EQ(pool.used(), 5);
  pool.release(3);
  EXPECT_EQ(pool.take(), 3);
}

TEST(BlockPool, FindsAPageByItsWholePrefix) {
  BlockPool pool(4, 2);
  int32_t a = pool.take(), b = pool.take(), c = pool.take();
  PrefixId one = pool.keep(a, kEmptyPrefix, Tokens{1, 2});
  PrefixId two = pool.keep(b, one, Tokens{3, 4});
  PrefixId other = pool.keep(c, kEmptyPrefix, Tokens{3, 4});
  EXPECT_EQ(pool.find(kEmptyPrefix, Tokens{1, 2}).block, a);
  EXPECT_EQ(pool.find(one, Tokens{3, 4}).block, b);
  EXPECT_EQ(pool.find(kEmptyPrefix, Tokens{3, 4}).block, c);
  EXPECT_EQ(pool.find(other, Tokens{3, 4}).block, -1);
  EXPECT_EQ(pool.find(two, Tokens{1, 2}).block, -1);
  EXPECT_EQ(pool.find(kEmptyPrefix, Tokens{2, 1}).block, -1);
}

TEST(BlockPool, PagesWithTheSameHashAreNotMixedUp) {
  BlockPool pool(4, 1);
  int32_t a = pool.take(), b = pool.take(), c = pool.take();
  PrefixId one = pool.keep(a, kEmptyPrefix, Tokens{1});
  // The token that brings the hash of another prefix to the same value.
  Tokens page = {2}, same = {static_cast<int64_t>(2 ^ 1 ^ (one * 0x9E3779B97F4A7C15u + 1))};
  ASSERT_EQ(BlockPool::hash(kEmptyPrefix, page), BlockPool::hash(one, same));
  pool.keep(b, kEmptyPrefix, page);
  EXPECT_EQ(pool.find(one, same).block, -1);
  pool.keep(c, one, same);
  EXPECT_EQ(pool.find(kEmptyPrefix, page).block, b);
  EXPECT_EQ(pool.find(one, same).block, c);
}

TEST(BlockPool, KeepsTheFirstOfTwoEqualPages) {
  BlockPool pool(2, 2);
  int32_t a = pool.take(), b = pool.take();
  PrefixId first = pool.keep(a, kEmptyPrefix, Tokens{1, 2});
  EXPECT_EQ(pool.keep(b, kEmptyPrefix, Tokens{1, 2}), first);
  pool.release(b);
  EXPECT_EQ(pool.find(kEmptyPrefix, Tokens{1, 2}).block, a);
  EXPECT_EQ(pool.take(), b) << "nobody finds it, so it is free";
}

TEST(BlockPool, AKeptPageStaysUntilItsMemoryIsNeeded) {
  BlockPool pool(3, 1);
  std::vector<int32_t> blocks;
  for (int64_t i = 0; i < 3; ++i) {
    blocks.push_back(pool.take());
    pool.keep(blocks.back(), kEmptyPrefix, Tokens{i});
  }
  for (int i : {1, 0, 2}) pool.release(blocks[static_cast<size_t>(i)]);
  EXPECT_EQ(pool.available(), 3);
  pool.share(blocks[1]);  // used again, and released after the others
  pool.release(blocks[1]);
  for (int i : {0, 2, 1}) {
    EXPECT_EQ(pool.find(kEmptyPrefix, Tokens{i}).block, blocks[static_cast<size_t>(i)]);
    EXPECT_EQ(pool.take(), blocks[static_cast<size_t>(i)]);
    EXPECT_EQ(pool.find(kEmptyPrefix, Tokens{i}).block, -1);
  }
}

TEST(BlockPool, APageWhosePrefixIsGoneIsNotFoundUnderANewOne) {
  BlockPool pool(2, 1);
  int32_t a = pool.take(), b = pool.take();
  PrefixId old = pool.keep(a, kEmptyPrefix, Tokens{1});
  pool.keep(b, old, Tokens{2});
  pool.release(a);
  int32_t again = pool.take();
  ASSERT_EQ(again, a);
  PrefixId renewed = pool.keep(again, kEmptyPrefix, Tokens{7});
  EXPECT_NE(renewed, old);
  EXPECT_EQ(pool.find(renewed, Tokens{2}).block, -1);
}

// Against a model of it that is too slow to use: owners by block, and the tokens of the whole prefix by block.
TEST(BlockPool, AgreesWithASimpleModel) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Stream random(seed, "pool");
    uint64_t at = 0;
    auto below = [&](size_t n) { return static_cast<size_t>(random.below(at++, n)); };
    BlockPool pool(12, 1);
    std::vector<int64_t> owners(12);
    std::map<int32_t, Tokens> content;  // of kept blocks
    std::map<PrefixId, Tokens> prefixes = {{kEmptyPrefix, {}}};
    std::vector<int32_t> held;  // once per owner
    for (int i = 0; i < 400; ++i) {
      size_t action = below(4);
      if (action == 0 && pool.available() > 0) {
        int32_t block = pool.take();
        EXPECT_EQ(owners[static_cast<size_t>(block)]++, 0);
        content.erase(block);
        held.push_back(block);
      } else if (action == 1 && !held.empty()) {
        size_t which = below(held.size());
        pool.release(held[which]);
        --owners[static_cast<size_t>(held[which])];
        held.erase(held.begin() + static_cast<int64_t>(which));
      } else if (action == 2 && !held.empty()) {
        int32_t block = held[below(held.size())];
        if (content.contains(block)) continue;
        auto before = std::next(prefixes.begin(), static_cast<int64_t>(below(prefixes.size())));
        Tokens whole = before->second;
        whole.push_back(static_cast<int64_t>(below(3)));
        bool found = pool.find(before->first, Tokens{whole.back()}).block >= 0;
        PrefixId prefix = pool.keep(block, before->first, Tokens{whole.back()});
        if (!found) content[block] = whole;
        auto [known, is_new] = prefixes.emplace(prefix, whole);
        EXPECT_EQ(is_new, !found);
        EXPECT_EQ(known->second, whole) << "a prefix stands for other tokens";
      } else if (action == 3) {
        auto before = std::next(prefixes.begin(), static_cast<int64_t>(below(prefixes.size())));
        Tokens page = {static_cast<int64_t>(below(3))};
        BlockPool::Found found = pool.find(before->first, page);
        if (found.block < 0) continue;
        Tokens whole = before->second;
        whole.push_back(page[0]);
        ASSERT_TRUE(content.contains(found.block));
        EXPECT_EQ(content[found.block], whole);
        pool.share(found.block);
        ++owners[static_cast<size_t>(found.block)];
        held.push_back(found.block);
      }
      pool.check(owners);
    }
  }
}

TEST(BlockPool, AForgottenPageIsNotFoundAndFreeWhenItIsReleased) {
  BlockPool pool(2, 1);
  const int32_t block = pool.take();
  const PrefixId prefix = pool.keep(block, kEmptyPrefix, Tokens{5});
  EXPECT_TRUE(pool.kept(block));
  pool.forget(block);
  EXPECT_FALSE(pool.kept(block));
  EXPECT_LT(pool.find(kEmptyPrefix, Tokens{5}).block, 0);
  pool.check(std::vector<int64_t>{block == 0 ? 1 : 0, block == 1 ? 1 : 0});
  EXPECT_NE(pool.keep(block, kEmptyPrefix, Tokens{5}), prefix) << "what followed the forgotten one is not found either";
  pool.forget(block);
  pool.release(block);
  pool.check(std::vector<int64_t>{0, 0});
}

}  // namespace
}  // namespace fk
