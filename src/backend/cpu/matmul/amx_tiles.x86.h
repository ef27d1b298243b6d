// Helpers for the AMX tile registers: eight tiles of sixteen rows by 64 bytes.
#pragma once

#include <cstdint>

#include "backend/cpu/matmul/avx512.x86.h"

#define FK_AMX __attribute__((target("amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")))
#define FK_AMX_INLINE FK_AMX __attribute__((always_inline)) inline

namespace fk::amx {

inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kTileBytes = 1024;
inline constexpr int64_t kTileColumns = 32;  // bf16 in a row of a first operand: the depth of one product

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

FK_AMX_INLINE void use_whole_tiles() {
  // Constant: GCC assumes that the intrinsic reads 8 bytes, so stores to the rest of a local variable could be dropped.
  static constexpr TileConfig config;
  _tile_loadconfig(&config);
}

// The compiler does not know which memory tile intrinsics read and write.
FK_AMX_INLINE void memory_barrier() { asm volatile("" ::: "memory"); }

// Elements element .. element+31 of up to sixteen rows become the second operand of a product, row i of which holds
// elements 2i and 2i+1 of all rows; zero where there is no row or no element.
FK_AMX_INLINE void pack_pairs(const void* const* rows, int64_t count, int64_t element, int64_t head_size, void* tile) {
  __mmask32 mask = avx512::first32(head_size - element);
  __m512i r[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i)
    r[i] = i < count ? _mm512_maskz_loadu_epi16(mask, static_cast<const uint16_t*>(rows[i]) + element)
                     : _mm512_setzero_si512();
  avx512::transpose16(r);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_store_si512(static_cast<std::byte*>(tile) + i * 64, r[i]);
}

}  // namespace fk::amx
