// The memory of a model's states: each block and slot is allocated once and can be freed, and a slot starts at zero.
#include "engine/state_pool.h"

#include <gtest/gtest.h>

#include <set>

#include "core/error.h"
#include "engine/step_batch.h"

namespace fk {
namespace {

const std::vector<StateSpec> kStates = {{"keys", StateKind::kPerToken, {2, 4}},
                                        {"window", StateKind::kPerSequence, {3, 5}, DType::kF32},
                                        {"encoded", StateKind::kPerSequenceFixed, {6}}};

TEST(StatePool, HasTheTensorsTheStatesAskFor) {
  StatePool pool(kStates, DType::kBF16, {.blocks = 7, .page_size = 8, .slots = 3});
  ASSERT_EQ(pool.states().size(), 3u);
  EXPECT_EQ(pool.states()[0].spec(), (TensorSpec{{7, 8, 2, 4}, DType::kBF16}));
  EXPECT_EQ(pool.states()[1].spec(), (TensorSpec{{3, 3, 5}, DType::kF32}));
  EXPECT_EQ(pool.states()[2].spec(), (TensorSpec{{3, 6}, DType::kBF16}));
  EXPECT_EQ(static_cast<double>(pool.size_bytes()), StatePool::size_bytes(kStates, DType::kBF16, pool.room()));
}

TEST(StatePool, HandsOutEveryBlockOnce) {
  StatePool pool(kStates, DType::kBF16, {.blocks = 7, .slots = 1});
  std::set<int32_t> taken;
  for (int i = 0; i < 7; ++i) taken.insert(pool.take_block());
  EXPECT_EQ(taken.size(), 7u);
  EXPECT_THROW(pool.take_block(), Error);
  pool.give_back_block(3);
  EXPECT_EQ(pool.take_block(), 3);
}

TEST(StatePool, ASlotStartsAtZero) {
  StatePool pool(kStates, DType::kBF16, {.blocks = 1, .slots = 2});
  int32_t first = pool.take_slot(), second = pool.take_slot();
  EXPECT_NE(first, second);
  EXPECT_THROW(pool.take_slot(), Error);
  for (int32_t slot : {first, second}) {
    set(pool.states()[1], 7, slot, 2, 4);
    set(pool.states()[2], 7, slot, 5);
  }
  pool.give_back_slot(first);
  EXPECT_EQ(pool.take_slot(), first);
  EXPECT_EQ(get(pool.states()[1], first, 2, 4), 0);
  EXPECT_EQ(get(pool.states()[2], first, 5), 0);
  EXPECT_EQ(get(pool.states()[1], second, 2, 4), 7) << "the other sequence's";
}

TEST(StatePool, ModelsWithoutStateHaveNone) {
  StatePool none({}, DType::kBF16, {.blocks = 4, .slots = 2});
  EXPECT_TRUE(none.states().empty());
  EXPECT_EQ(none.size_bytes(), 0u);
  EXPECT_EQ(none.take_slot(), -1);
  none.give_back_slot(-1);
}

TEST(StepBatch, CarriesSlotsAndPages) {
  StepBatch batch(16, 3, 4, 8);
  const std::vector<int64_t> prompt(5, 1), token(1, 2);
  const std::vector<int32_t> one = {2, 0}, other = {1};
  const StepItem items[] = {{prompt, 0, other, 1}, {token, 9, one, 2}};
  batch.assemble(items);
  const AttentionMetadata& m = batch.attention();
  EXPECT_EQ(m.page_size, 8);
  EXPECT_EQ(get(m.decode.state_slots, 0), 2);
  EXPECT_EQ(get(m.prefill.state_slots, 0), 1);
  EXPECT_EQ(get(m.slot_mapping, 0), 0 * 8 + 1) << "token 9 is the second of block 0";
  EXPECT_EQ(get(m.slot_mapping, 5), 1 * 8 + 4);
}

}  // namespace
}  // namespace fk
