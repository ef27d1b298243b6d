// Shapes and views: every view is compared with a naive enumeration of the parent's elements.
#include "core/tensor.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <vector>

namespace fk {
namespace {

// The elements of a view in row-major order of its indices.
std::vector<int> elements(const View& v) {
  std::vector<int> out;
  std::vector<int64_t> index(static_cast<size_t>(v.rank()), 0);
  for (int64_t i = 0; i < v.numel(); ++i) {
    int64_t rest = i;
    for (int d = v.rank() - 1; d >= 0; --d) {
      index[static_cast<size_t>(d)] = rest % v.size(d);
      rest /= v.size(d);
    }
    out.push_back(static_cast<int>(load_element(v.at(index), v.dtype())));
  }
  return out;
}

// Memory whose element i holds i, under a dense view.
struct Numbered {
  explicit Numbered(const Shape& shape) : memory(static_cast<size_t>(shape.numel())) {
    std::iota(memory.begin(), memory.end(), 0);
    view = View(memory.data(), shape, DType::kI32);
  }
  std::vector<int32_t> memory;
  View view;
};

TEST(Shape, CountsComparesAndPrints) {
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ(Shape{}.str(), "[]");
  EXPECT_EQ((Shape{3, 0, 4}.numel()), 0);
  Shape s{2, 3, 4};
  EXPECT_EQ(s.numel(), 24);
  EXPECT_EQ(s[-1], 4);
  EXPECT_EQ(s[0], 2);
  EXPECT_EQ(s.str(), "[2, 3, 4]");
  EXPECT_EQ(s, (Shape{2, 3, 4}));
  EXPECT_NE(s, (Shape{2, 3}));
  EXPECT_NE(s, (Shape{2, 3, 5}));
  s[-1] = 7;
  EXPECT_EQ(s.numel(), 42);
}

TEST(TensorSpec, KnowsItsBytes) {
  EXPECT_EQ((TensorSpec{{3, 5}, DType::kBF16}.size_bytes()), 30u);
  EXPECT_EQ((TensorSpec{{}, DType::kF64}.size_bytes()), 8u);
  EXPECT_NE((TensorSpec{{3}, DType::kF32}), (TensorSpec{{3}, DType::kI32}));
}

TEST(View, IsDenseRowMajorWhenMade) {
  Numbered n({2, 3, 4});
  EXPECT_TRUE(n.view.contiguous());
  EXPECT_TRUE(n.view.rows_contiguous());
  EXPECT_EQ(n.view.stride(0), 12);
  EXPECT_EQ(n.view.stride(1), 4);
  EXPECT_EQ(n.view.stride(-1), 1);
  EXPECT_EQ(elements(n.view), n.memory);
  EXPECT_EQ(get(n.view, 1, 2, 3), 23);
  set(n.view, -5, 1, 0, 0);
  EXPECT_EQ(n.memory[12], -5);
  EXPECT_EQ(n.view.str(), "i32[2, 3, 4]");
}

TEST(View, NarrowTakesASliceOfAnyDimension) {
  Numbered n({3, 4, 5});
  for (int dim = 0; dim < 3; ++dim) {
    int64_t extent = n.view.size(dim);
    for (int64_t start = 0; start <= extent; ++start) {
      for (int64_t length = 0; start + length <= extent; ++length) {
        std::vector<int> expected;
        for (int64_t a = 0; a < 3; ++a)
          for (int64_t b = 0; b < 4; ++b)
            for (int64_t c = 0; c < 5; ++c) {
              int64_t at = dim == 0 ? a : dim == 1 ? b : c;
              if (at >= start && at < start + length) expected.push_back(static_cast<int>(a * 20 + b * 5 + c));
            }
        View slice = n.view.narrow(dim, start, length);
        EXPECT_EQ(elements(slice), expected);
        EXPECT_EQ(elements(n.view.narrow(dim - 3, start, length)), expected);
        // Dense exactly where the picked elements lie side by side.
        bool dense = expected.empty() || expected.back() - expected.front() + 1 == static_cast<int>(expected.size());
        EXPECT_EQ(slice.contiguous(), dense) << dim << " " << start << " " << length;
      }
    }
  }
}

TEST(View, SelectDropsADimension) {
  Numbered n({3, 4, 5});
  for (int dim = 0; dim < 3; ++dim) {
    for (int64_t i = 0; i < n.view.size(dim); ++i) {
      View picked = n.view.select(dim, i);
      EXPECT_EQ(picked.rank(), 2);
      EXPECT_EQ(elements(picked), elements(n.view.narrow(dim, i, 1)));
      EXPECT_EQ(elements(n.view.select(dim - 3, i)), elements(picked));
    }
  }
  EXPECT_EQ(n.view.select(1, 2).shape(), (Shape{3, 5}));
  EXPECT_EQ(n.view.select(0, 1).select(0, 2).select(0, 3).rank(), 0);
  EXPECT_EQ(elements(n.view.select(0, 1).select(0, 2).select(0, 3)), std::vector<int>{33});
}

TEST(View, SplitAndFlattenUndoEachOtherAndKeepTheElements) {
  Numbered n({3, 12});
  for (int64_t outer : {1, 2, 3, 4, 6, 12}) {
    View split = n.view.split_last(outer, 12 / outer);
    EXPECT_EQ(split.shape(), (Shape{3, outer, 12 / outer}));
    EXPECT_EQ(elements(split), n.memory);
    EXPECT_EQ(split.flatten_last().shape(), n.view.shape());
    EXPECT_EQ(elements(split.flatten_last()), n.memory);
  }
}

// The q part of a packed qkv row: rows have a gap, heads inside a row do not.
TEST(View, SplitAndFlattenWorkOnRowsWithGaps) {
  Numbered n({4, 10});
  View middle = n.view.narrow(1, 2, 6);
  EXPECT_FALSE(middle.contiguous());
  EXPECT_TRUE(middle.rows_contiguous());
  View heads = middle.split_last(3, 2);
  EXPECT_EQ(elements(heads), elements(middle));
  EXPECT_EQ(heads.stride(0), 10);
  EXPECT_EQ(elements(heads.select(1, 2)), (std::vector<int>{6, 7, 16, 17, 26, 27, 36, 37}));
  EXPECT_EQ(elements(heads.flatten_last()), elements(middle));
}

TEST(View, ReshapeKeepsTheOrder) {
  Numbered n({2, 6});
  EXPECT_EQ(elements(n.view.reshape({3, 4})), n.memory);
  EXPECT_EQ(elements(n.view.reshape({1, 12, 1})), n.memory);
  EXPECT_EQ(n.view.reshape({3, 4}).select(0, 1).size(0), 4);
}

TEST(View, OneRowOfAWiderTensorIsContiguous) {
  Numbered n({4, 10});
  View row = n.view.narrow(0, 2, 1);
  EXPECT_TRUE(row.contiguous());
  EXPECT_TRUE(row.narrow(1, 3, 4).contiguous());
  EXPECT_EQ(elements(row.narrow(1, 3, 4).reshape({2, 2})), (std::vector<int>{23, 24, 25, 26}));
  EXPECT_FALSE(n.view.narrow(1, 0, 1).contiguous());  // a column
  EXPECT_TRUE(n.view.narrow(1, 0, 1).rows_contiguous());
  EXPECT_FALSE(n.view.split_last(5, 2).select(2, 0).rows_contiguous());  // every second element
}

TEST(View, EmptyViewsAreContiguousWhateverTheirStrides) {
  Numbered n({4, 10});
  EXPECT_TRUE(n.view.narrow(1, 5, 0).contiguous());
  EXPECT_EQ(n.view.narrow(0, 4, 0).numel(), 0);
  EXPECT_TRUE(elements(n.view.narrow(0, 4, 0)).empty());
}

TEST(CopyElements, FollowsStridesOnBothSides) {
  Numbered from({4, 6}), to({6, 8});
  View source = from.view.narrow(1, 1, 3), target = to.view.narrow(0, 1, 4).narrow(1, 4, 3);
  std::vector<int> expected = to.memory;
  for (size_t i = 0; i < 4; ++i)
    for (size_t j = 0; j < 3; ++j) expected[(i + 1) * 8 + 4 + j] = from.memory[i * 6 + 1 + j];
  copy_elements(source, target);
  EXPECT_EQ(to.memory, expected);
}

TEST(CopyElements, ConvertsAndKeepsBitsWhereTheDTypeIsEqual) {
  float source[] = {1.0f, -2.5f, 1.00390625f, 3e38f};
  bf16 target[4];
  copy_elements(View(source, {4}, DType::kF32), View(target, {4}, DType::kBF16));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(target[i].bits, bf16(source[i]).bits);

  auto signalling = static_cast<uint16_t>(0x7f81);  // a NaN whose payload a conversion through float would change
  bf16 odd, copy;
  odd.bits = signalling;
  copy_elements(View(&odd, {}, DType::kBF16), View(&copy, {}, DType::kBF16));
  EXPECT_EQ(copy.bits, signalling);
}

TEST(ViewDeathTest, ABrokenInvariantNamesTheExpression) {
  Numbered n({4, 10});
  EXPECT_DEATH(n.view.narrow(1, 5, 6), "broken invariant.*start \\+ length");
  EXPECT_DEATH(n.view.narrow(-3, 0, 1), "broken invariant");
  EXPECT_DEATH(n.view.split_last(3, 3), "broken invariant");
  EXPECT_DEATH(n.view.narrow(1, 0, 5).reshape({20}), "broken invariant");
  EXPECT_DEATH(n.view.ptr<float>(), "dtype of a view");
}

}  // namespace
}  // namespace fk
