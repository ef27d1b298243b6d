// Sizes as sums of the batch's sizes, their texts, and the relation of views.
#include "graph/symbolic_size.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/memory.h"
#include "graph/view_relation.h"

namespace fk {
namespace {

TEST(SymbolicSize, TextAndBack) {
  for (const char* text : {"0", "64", "-3", "T", "8 T", "S + 1", "T - Sd", "-T + 2 B - 5", "page", "P + 3 slots"}) {
    SymbolicSize size = parse_size(text);
    EXPECT_EQ(size_text(size), text);
    EXPECT_EQ(parse_size(size_text(size)), size);
  }
  for (const char* text : {"", "X", "8T", "T +", "T + ", " T", "1.5", "T * S", "99999999999999999999"})
    EXPECT_THROW(parse_size(text), Error) << text;
}

TEST(SymbolicSize, HasAValueForEveryBatch) {
  BatchSizes sizes;
  sizes[SizeSymbol::kTokens] = 10;
  sizes[SizeSymbol::kDecoding] = 3;
  EXPECT_EQ(parse_size("2 T - Sd + 1").at(sizes), 18);
}

TEST(ViewRelation, BoxesAndReshapes) {
  Tensor tensor({6, 12}, DType::kF32);
  View whole = tensor;
  auto box = box_of(whole, whole.narrow(1, 4, 8));
  ASSERT_TRUE(box);
  EXPECT_EQ(box->starts, (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(box->lengths, (std::vector<int64_t>{6, 8}));
  EXPECT_FALSE(box->is_whole(whole));
  EXPECT_TRUE(box_of(whole, whole.reshape({72}))->is_whole(whole));
  // Inside a view with gaps between its rows, positions are logical.
  View columns = whole.narrow(1, 4, 8);
  auto inner = box_of(columns, columns.narrow(0, 2, 3).split_last(2, 4));
  ASSERT_TRUE(inner);
  EXPECT_EQ(inner->starts, (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(inner->lengths, (std::vector<int64_t>{3, 8}));
  // Neither a box nor of the same elements: seven elements from the middle of a row on, other columns, other dtype.
  EXPECT_FALSE(box_of(whole, View(whole.ptr<float>() + 9, {7}, DType::kF32)));
  EXPECT_FALSE(box_of(columns, whole.narrow(1, 0, 8)));
  EXPECT_FALSE(box_of(whole, View(whole.data(), {6, 12}, DType::kI32)));
}

TEST(ViewRelation, OverlapIsExact) {
  Tensor tensor({6, 12}, DType::kF32), other({6, 12}, DType::kF32);
  View whole = tensor, left = whole.narrow(1, 0, 4), right = whole.narrow(1, 4, 8);
  EXPECT_TRUE(views_overlap(whole, right));
  EXPECT_FALSE(views_overlap(left, right));
  EXPECT_TRUE(views_overlap(right, whole.narrow(1, 3, 2)));
  EXPECT_FALSE(views_overlap(whole.narrow(0, 0, 2), whole.narrow(0, 2, 4)));
  EXPECT_TRUE(views_overlap(right, whole.narrow(0, 5, 1)));
  EXPECT_FALSE(views_overlap(whole, other.view()));
  EXPECT_FALSE(views_overlap(whole, whole.narrow(0, 3, 0)));
}

}  // namespace
}  // namespace fk
