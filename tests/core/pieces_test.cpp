// Tests of put_together: every element is the one that Pieces::chosen and Pieces::scaled give.
#include "core/pieces.h"

#include <gtest/gtest.h>

#include <vector>

namespace fk {
namespace {

template <class U>
void expect_pieces(const Pieces& how) {
  // All bit patterns of 16 bits are there: zeros, subnormals, infinities and NaNs of both signs.
  std::vector<U> set(static_cast<size_t>(how.set_elements)), out(static_cast<size_t>(how.elements));
  for (size_t i = 0; i < set.size(); ++i)
    set[i] = static_cast<U>(static_cast<uint64_t>(i * 40503) << (8 * sizeof(U) > 16 ? 8 * sizeof(U) - 16 : 0));
  put_together(out.data(), set.data(), how);
  int64_t wrong = 0, seen = 0, changed = 0;
  for (int64_t number = 0; number < how.count(); ++number) {
    const Pieces::Piece p = how.piece(number);
    for (int64_t i = p.begin; i < p.end; ++i, ++seen) {
      const U one = set[static_cast<size_t>(i + p.from)], two = set[static_cast<size_t>(i + p.other)];
      U expected = how.chosen(one, two, p, i);
      if (how.scales(p)) expected = how.scaled(expected, p);
      wrong += out[static_cast<size_t>(i)] != expected ? 1 : 0;
      changed += expected != one ? 1 : 0;
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(seen, how.elements);
  EXPECT_GE(changed, how.elements / 4) << "nothing was chosen or scaled";
}

TEST(Pieces, AreChosenAndScaledAsDefined) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI8, DType::kI64})
    for (int64_t elements : {1, 7, 1000, 100003})
      for (auto [least, most] : {std::pair{0, 0}, std::pair{-3, 3}, std::pair{-10, -10}, std::pair{3, 3}}) {
        Pieces how{.elements = elements,
                   .element_bytes = static_cast<int64_t>(dtype_size(dtype)),
                   .key = 0x9E3779B97F4A7C15u * static_cast<uint64_t>(elements + most),
                   .set_elements = elements + 70000};
        store_float_format(how, dtype);
        how.least_exponent = least;
        how.most_exponent = most;
        SCOPED_TRACE(testing::Message() << dtype_name(dtype) << ", " << elements << " elements, " << least << " to " << most);
        with_element_of(how.element_bytes, [&]<class U>(U) { expect_pieces<U>(how); });
      }
}

}  // namespace
}  // namespace fk
