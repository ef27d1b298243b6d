#include "models/dummy_weights.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "core/check.h"
#include "core/device_runtime.h"
#include "core/rng.h"
#include "core/simd_clones.h"
#include "models/convert.h"
#include "ops/fan_in.h"
#include "ops/formats/ternary.h"

namespace fk {
namespace {

constexpr int64_t kPerBlock = 8;
constexpr int64_t kBlocks = 256;                // of one tile; all state of a tile fits in L1
constexpr int64_t kTile = kBlocks * kPerBlock;  // elements

// philox4x32 of core/rng.h on kBlocks counters at once, round by round, so that a round is one vector loop.
FK_SIMD_CLONES void philox_tile(uint64_t key, uint64_t first_block, uint32_t* words) {
  uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  for (int64_t i = 0; i < kBlocks; ++i) {
    uint64_t counter = first_block + static_cast<uint64_t>(i);
    c0[i] = static_cast<uint32_t>(counter);
    c1[i] = static_cast<uint32_t>(counter >> 32);
    c2[i] = 0;
    c3[i] = 0;
  }
  auto k0 = static_cast<uint32_t>(key);
  auto k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int64_t i = 0; i < kBlocks; ++i) {
      uint64_t p0 = uint64_t{0xD2511F53u} * c0[i];
      uint64_t p1 = uint64_t{0xCD9E8D57u} * c2[i];
      c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      c1[i] = static_cast<uint32_t>(p1);
      c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c3[i] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int64_t i = 0; i < kBlocks; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

// The halves of the words in element order are the words' bytes, on the little-endian machines we build for.
// scale * u = (scale * 2^-16) * (2h - 65535) to the bit, because scaling by a power of two rounds nothing.
FK_SIMD_CLONES void scale_tile(const uint16_t* halves, DummyRange range, float* values) {
  float step = range.scale * 0x1p-16f;
  for (int64_t i = 0; i < kTile; ++i) {
    float odd = static_cast<float>(2 * static_cast<int32_t>(halves[i]) - 65535);
    values[i] = range.offset + step * odd;
  }
}

void fill_range(uint64_t key, DummyRange range, int64_t begin, int64_t end, std::byte* out, DType dtype) {
  uint32_t words[kTile / 2];
  uint16_t halves[kTile];
  float values[kTile];
  auto size = static_cast<int64_t>(dtype_size(dtype));
  for (int64_t i = begin; i < end;) {
    int64_t block = i / kPerBlock;
    int64_t skipped = i % kPerBlock;
    int64_t count = std::min(kTile - skipped, end - i);
    philox_tile(key, static_cast<uint64_t>(block), words);
    std::memcpy(halves, words, sizeof halves);
    scale_tile(halves, range, values);
    convert_elements(values + skipped, DType::kF32, out + (i - begin) * size, dtype, count);
    i += count;
  }
}

}  // namespace

DummyRange dummy_range(std::string_view name, const Shape& shape, float norm_offset) {
  bool norm = name.find("norm") != std::string_view::npos || name.find("Norm") != std::string_view::npos;
  if (shape.rank() == 1 && (name.ends_with("scale") || name.ends_with("scalar"))) return {1.0f, 0.1f};
  // Time steps of 0.002 to 0.1, so that the states of state spaces remember hundreds of tokens.
  if (name.ends_with("dt_proj.bias") || name.ends_with("mixer.dt_bias") || name.ends_with("mamba.dt_bias") ||
      name.ends_with("attn.dt_bias"))
    return {-4.0f, 2.0f};
  if (shape.rank() == 1) return {norm && !name.ends_with(".bias") ? norm_offset : 0.0f, 0.1f};
  if (shape.rank() == 3 && shape[0] == 1 && shape[1] == 1) return {0.0f, 1.0f};
  return {0.0f, static_cast<float>(std::sqrt(3.0 / static_cast<double>(fan_in(shape))))};
}

void fill_dummy(const View& destination, uint64_t seed, std::string_view name, DummyRange range, ThreadPool& pool,
                int64_t first) {
  FK_CHECK(destination.contiguous() && dtype_is_weight(destination.dtype()) && first >= 0);
  uint64_t key = stream_key(seed, name);
  if (destination.device() != kCpu)
    return device_runtime(destination.device()).fill_dummy(destination, key, range.offset, range.scale, first);
  auto* out = static_cast<std::byte*>(destination.data());
  auto size = static_cast<int64_t>(dtype_size(destination.dtype()));
  // Whole huge pages: if two threads touch a new page at the same time, both clear it.
  int64_t grain = (int64_t{2} << 20) / size;
  pool.parallel_for(destination.numel(), grain, [&](int64_t begin, int64_t end) {
    fill_range(key, range, first + begin, first + end, out + begin * size, destination.dtype());
  });
}

void fill_dummy_format(const View& bytes, const WeightFormat& format, uint64_t seed, std::string_view name,
                       ThreadPool& pool) {
  FK_CHECK(bytes.contiguous() && bytes.device() == kCpu && bytes.rank() == 2);
  int64_t columns = format.row_elements(bytes.size(1));
  DummyRange range = dummy_range(name, {bytes.size(0), columns}, 0);
  uint64_t key = stream_key(seed, name);
  pool.parallel_for(bytes.size(0), 64, [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<size_t>(columns));
    for (int64_t r = begin; r < end; ++r) {
      fill_range(key, range, r * columns, (r + 1) * columns, reinterpret_cast<std::byte*>(row.data()), DType::kF32);
      quantise(format, row.data(), columns, static_cast<std::byte*>(bytes.data()) + r * bytes.size(1));
    }
  });
}

void fill_dummy_tensor(const View& destination, const Generator& generator, uint64_t seed, std::string_view name,
                       ThreadPool& pool) {
  FK_CHECK(destination.contiguous() && destination.device() == kCpu);
  Stream stream(seed, name);
  auto* out = static_cast<std::byte*>(destination.data());
  const DType dtype = destination.dtype();
  if (generator.kind == Generator::Kind::kUniform) {
    pool.parallel_for(destination.numel(), int64_t{1} << 14, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        store_element(out + i * static_cast<int64_t>(dtype_size(dtype)), dtype,
                      generator.a + (generator.b - generator.a) * stream.uniform(static_cast<uint64_t>(i)));
    });
    return;
  }
  constexpr int64_t kTileBytes = kBlocks * 16;
  const bool ternary = dtype == DType::kU8 && generator.b == kLargestTernaryByte + 1;
  auto bytes = static_cast<int64_t>(destination.size_bytes());
  pool.parallel_for((bytes + kTileBytes - 1) / kTileBytes, 256, [&](int64_t begin, int64_t end) {
    uint32_t words[kTile / 2];
    for (int64_t tile = begin; tile < end; ++tile) {
      philox_tile(stream_key(seed, name), static_cast<uint64_t>(tile * kBlocks), words);
      int64_t count = std::min(kTileBytes, bytes - tile * kTileBytes);
      std::memcpy(out + tile * kTileBytes, words, static_cast<size_t>(count));
      auto* codes = reinterpret_cast<uint8_t*>(out + tile * kTileBytes);
      for (int64_t i = 0; ternary && i < count; ++i) codes[i] = ternary_byte(codes[i]);
      for (int64_t i = 0; dtype == DType::kF8E4M3 && i < count; ++i)
        codes[i] = static_cast<uint8_t>((codes[i] & 0x87) | (10 + (codes[i] >> 4 & 3)) << 3);
    }
  });
}

}  // namespace fk
