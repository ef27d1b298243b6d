#include "models/stored_layout.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "models/convert.h"

namespace fk {
namespace {

constexpr int64_t kTransposeTile = 32;

// Rows k .. k + kTransposeTile - 1 of one matrix [K, N], to columns of a matrix [N, K].
void transpose_rows(const std::byte* from, DType from_dtype, std::byte* to, DType to_dtype, int64_t K, int64_t N,
                    int64_t k) {
  auto from_size = static_cast<int64_t>(dtype_size(from_dtype)), size = static_cast<int64_t>(dtype_size(to_dtype));
  std::byte tile[kTransposeTile * kTransposeTile * sizeof(double)];
  const int64_t rows = std::min(kTransposeTile, K - k);
  for (int64_t n = 0; n < N; n += kTransposeTile) {
    const int64_t columns = std::min(kTransposeTile, N - n);
    for (int64_t r = 0; r < rows; ++r)
      convert_elements(from + ((k + r) * N + n) * from_size, from_dtype, tile + r * kTransposeTile * size, to_dtype,
                       columns);
    for (int64_t c = 0; c < columns; ++c)
      for (int64_t r = 0; r < rows; ++r)
        std::memcpy(to + ((n + c) * K + k + r) * size, tile + (r * kTransposeTile + c) * size,
                    static_cast<size_t>(size));
  }
}

}  // namespace

void copy_transposed(const View& from, const View& to, ThreadPool& pool) {
  FK_CHECK(from.rank() == 3 && to.rank() == 3 && from.size(0) == to.size(0) && from.size(1) == to.size(2) &&
           from.size(2) == to.size(1));
  const int64_t K = from.size(1), N = from.size(2), tiles = (K + kTransposeTile - 1) / kTransposeTile;
  pool.parallel_for(from.size(0) * tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t matrix = i / tiles * K * N;
      transpose_rows(
          static_cast<const std::byte*>(from.data()) + matrix * static_cast<int64_t>(dtype_size(from.dtype())),
          from.dtype(), static_cast<std::byte*>(to.data()) + matrix * static_cast<int64_t>(dtype_size(to.dtype())),
          to.dtype(), K, N, i % tiles * kTransposeTile);
    }
  });
}

void copy_mxfp4(const View& elements, const View& scales, const View& to, ThreadPool& pool) {
  constexpr int64_t kHalf = 16;  // bytes of elements in a block
  FK_CHECK(elements.numel() == kHalf * scales.numel() && to.numel() == (kHalf + 1) * scales.numel());
  const auto* bytes = static_cast<const uint8_t*>(elements.data());
  const auto* exponents = static_cast<const uint8_t*>(scales.data());
  auto* blocks = static_cast<uint8_t*>(to.data());
  pool.parallel_for(scales.numel(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const uint8_t* in = bytes + i * kHalf;
      uint8_t* out = blocks + i * (kHalf + 1);
      auto element = [&](int64_t j) { return static_cast<uint8_t>(j % 2 == 0 ? in[j / 2] & 15 : in[j / 2] >> 4); };
      out[0] = exponents[i];
      for (int64_t j = 0; j < kHalf; ++j) out[1 + j] = static_cast<uint8_t>(element(j) | element(j + kHalf) << 4);
    }
  });
}

}  // namespace fk
