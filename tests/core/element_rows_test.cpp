// Rows of elements are the same numbers as their elements one by one, in every dtype and at every distance.
#include "core/element_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "core/rng.h"
#include "core/tensor.h"

namespace fk {
namespace {

// Of every size that a narrow float rounds differently, and both infinities where the dtype has them.
std::vector<double> numbers_for(DType t) {
  const bool floats = dtype_is_float(t);
  std::vector<double> numbers{0, 1};
  if (floats) numbers.insert(numbers.end(), {-0.0, INFINITY, -INFINITY, 1e-9, 3e38, 0x1p-24, 0x1p-25 * 1.0000001, 449});
  Stream random(3, "rows");
  for (uint64_t i = 0; i < 400; ++i)
    numbers.push_back(floats ? std::ldexp(random.normal(i), static_cast<int>(random.below(i, 50)) - 30)
                             : static_cast<double>(random.below(i, 100)));
  return numbers;
}

TEST(ElementRows, AreTheElementsOneByOne) {
  for (DType t : kAllDTypes)
    for (int64_t stride : {1, 3}) {
      SCOPED_TRACE(dtype_name(t));
      const std::vector<double> numbers = numbers_for(t);
      const auto n = static_cast<int64_t>(numbers.size());
      const size_t size = dtype_size(t);
      std::vector<std::byte> row(numbers.size() * static_cast<size_t>(stride) * size, std::byte{0x5b}), single = row;
      store_elements(row.data(), t, stride, n, numbers.data());
      for (int64_t i = 0; i < n; ++i)
        store_element(single.data() + static_cast<size_t>(i * stride) * size, t, numbers[static_cast<size_t>(i)]);
      EXPECT_EQ(row, single);
      std::vector<double> loaded(numbers.size());
      load_elements(row.data(), t, stride, n, loaded.data());
      for (int64_t i = 0; i < n; ++i) {
        const double want = load_element(row.data() + static_cast<size_t>(i * stride) * size, t);
        EXPECT_EQ(std::memcmp(&loaded[static_cast<size_t>(i)], &want, sizeof want), 0) << i;
      }
    }
}

// Long rows, rows with gaps, columns, and single elements.
TEST(ElementRows, CopiesConvertEveryElement) {
  constexpr int64_t kRows = 3, kColumns = 600;
  std::vector<float> from(kRows * kColumns);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i) / 4;
  const View all(from.data(), {kRows, kColumns}, DType::kF32);
  for (DType t : {DType::kF64, DType::kF16, DType::kI32, DType::kF32})
    for (const View& part : {all, all.narrow(1, 7, 301), all.select(1, 5), all.select(0, 2).select(0, 9)}) {
      SCOPED_TRACE(std::string(dtype_name(t)) + " of " + part.str());
      std::vector<double> memory(static_cast<size_t>(2 * part.numel()));
      View to(memory.data(), part.shape(), t);
      copy_elements(part, to);
      std::vector<int64_t> index(static_cast<size_t>(part.rank()));
      for (int64_t i = 0; i < part.numel(); ++i) {
        double want = load_element(part.at(index), DType::kF32);
        std::byte rounded[8];
        store_element(rounded, t, want);
        ASSERT_EQ(load_element(to.at(index), t), load_element(rounded, t)) << i;
        for (int d = part.rank() - 1; d >= 0 && ++index[static_cast<size_t>(d)] == part.size(d); --d)
          index[static_cast<size_t>(d)] = 0;
      }
    }
}

}  // namespace
}  // namespace fk
