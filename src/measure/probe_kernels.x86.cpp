// x86-64 loops of the machine probe: AMX, AVX-512, AVX2, and SSE2 for CPUs older than that.
#include <immintrin.h>

#include <bit>

#include "core/cpu_features.h"
#include "core/dtype.h"
#include "measure/probe_kernels.h"

namespace fk {
namespace {

// ---- bf16 with AMX: 16 x 16 results, 32 products each, per instruction ----

constexpr int64_t kAmxRounds = 16384;  // |sum| <= 16384 * 32 * 9 < 2^24: exact in f32
constexpr size_t kTileRows = 16, kTilePairs = 16;

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

struct alignas(64) TileBf16 {
  bf16 at[kTileRows][2 * kTilePairs];
};

TileBf16 make_tile(size_t start) {
  TileBf16 tile;
  for (auto& row : tile.at)
    for (bf16& x : row) x = bf16(static_cast<float>(peak_operand(start++)));
  return tile;
}

// Row m of A times column n of B; a B tile holds rows 2k and 2k+1 of the matrix interleaved in its row k.
float tile_dot(const TileBf16& a, const TileBf16& b, size_t m, size_t n) {
  float sum = 0;
  for (size_t k = 0; k < kTilePairs; ++k)
    for (size_t j = 0; j < 2; ++j)
      sum += static_cast<float>(a.at[m][2 * k + j]) * static_cast<float>(b.at[k][2 * n + j]);
  return sum;
}

__attribute__((target("amx-tile,amx-bf16"))) bool run_amx() {
  static const TileBf16 a[2] = {make_tile(0), make_tile(3)}, b[2] = {make_tile(5), make_tile(9)};
  alignas(64) float sums[4][16][16];
  // Constant: the intrinsic is declared to read only 8 bytes, so GCC could remove stores to the rest of a local object.
  static constexpr TileConfig config;
  _tile_loadconfig(&config);
  _tile_loadd(4, a[0].at, 64);
  _tile_loadd(5, a[1].at, 64);
  _tile_loadd(6, b[0].at, 64);
  _tile_loadd(7, b[1].at, 64);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t round = 0; round < kAmxRounds; ++round) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums[0], 64);
  _tile_stored(1, sums[1], 64);
  _tile_stored(2, sums[2], 64);
  _tile_stored(3, sums[3], 64);
  _tile_release();
  // Checks one element of each result: a longer check would count as time of the arithmetic.
  for (size_t t = 0; t < 4; ++t)
    if (!(sums[t][15][t] == kAmxRounds * tile_dot(a[t / 2], b[t % 2], 15, t))) return false;
  return true;
}

// ---- vectors ----
//
// The whole loops are assembly: in C++, g++ 12 keeps the sums of such a loop in memory. Sum r accumulates operand r / 4
// times the last operand; 16 sums (10 of the 16 registers without AVX-512) cover the latency at 2 instructions per
// cycle.

constexpr int64_t kVectorRounds = 32768;  // |sum| <= 32768 * 2 * 9 < 2^24: exact in f32

struct alignas(64) Operands {
  uint32_t lanes[5];
};

Operands f32_operands() {
  Operands operands;
  for (size_t i = 0; i < 5; ++i) operands.lanes[i] = std::bit_cast<uint32_t>(static_cast<float>(peak_operand(i)));
  return operands;
}

Operands bf16_operands() {  // the same bf16 in both halves of a lane
  Operands operands;
  for (size_t i = 0; i < 5; ++i) operands.lanes[i] = bf16(static_cast<float>(peak_operand(i))).bits * 0x10001u;
  return operands;
}

template <size_t Sums, size_t Lanes>
bool sums_are_right(const float (&sums)[Sums][Lanes], int products_per_round) {
  for (size_t r = 0; r < Sums; ++r)
    for (float sum : sums[r])
      if (!(sum == static_cast<float>(products_per_round * kVectorRounds * peak_operand(r / 4) * peak_operand(4))))
        return false;
  return true;
}

#define FK_ZMM_LOOP(instruction)                                                                                 \
  alignas(64) float sums[16][16];                                                                                \
  int64_t rounds = kVectorRounds;                                                                                \
  asm volatile(                                                                                                  \
      "vbroadcastss 0(%[operands]), %%zmm16\n\t"                                                                 \
      "vbroadcastss 4(%[operands]), %%zmm17\n\t"                                                                 \
      "vbroadcastss 8(%[operands]), %%zmm18\n\t"                                                                 \
      "vbroadcastss 12(%[operands]), %%zmm19\n\t"                                                                \
      "vbroadcastss 16(%[operands]), %%zmm20\n\t"                                                                \
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\tvpxord %%zmm\\r, %%zmm\\r, %%zmm\\r\n\t.endr\n"           \
      "1:\n\t"                                                                                                   \
      ".irp r,0,1,2,3\n\t" instruction                                                                           \
      " %%zmm16, %%zmm20, %%zmm\\r\n\t.endr\n\t"                                                                 \
      ".irp r,4,5,6,7\n\t" instruction                                                                           \
      " %%zmm17, %%zmm20, %%zmm\\r\n\t.endr\n\t"                                                                 \
      ".irp r,8,9,10,11\n\t" instruction                                                                         \
      " %%zmm18, %%zmm20, %%zmm\\r\n\t.endr\n\t"                                                                 \
      ".irp r,12,13,14,15\n\t" instruction                                                                       \
      " %%zmm19, %%zmm20, %%zmm\\r\n\t.endr\n\t"                                                                 \
      "dec %[rounds]\n\t"                                                                                        \
      "jnz 1b\n\t"                                                                                               \
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\tvmovaps %%zmm\\r, 64*\\r(%[sums])\n\t.endr\n\t"           \
      "vzeroupper"                                                                                               \
      : [rounds] "+r"(rounds)                                                                                    \
      : [operands] "r"(&operands), [sums] "r"(&sums)                                                             \
      : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20")

__attribute__((target("avx512f"))) bool run_fma512() {
  static const Operands operands = f32_operands();
  FK_ZMM_LOOP("vfmadd231ps");
  return sums_are_right(sums, 1);
}

__attribute__((target("avx512f"))) bool run_dpbf16() {
  static const Operands operands = bf16_operands();
  FK_ZMM_LOOP("vdpbf16ps");
  return sums_are_right(sums, 2);
}

bool run_fma256() {
  static const Operands operands = f32_operands();
  alignas(32) float sums[10][8];
  int64_t rounds = kVectorRounds;
  asm volatile(
      "vbroadcastss 0(%[operands]), %%ymm10\n\t"
      "vbroadcastss 4(%[operands]), %%ymm11\n\t"
      "vbroadcastss 8(%[operands]), %%ymm12\n\t"
      "vbroadcastss 16(%[operands]), %%ymm13\n\t"
      ".irp r,0,1,2,3,4,5,6,7,8,9\n\tvxorps %%ymm\\r, %%ymm\\r, %%ymm\\r\n\t.endr\n"
      "1:\n\t"
      ".irp r,0,1,2,3\n\tvfmadd231ps %%ymm10, %%ymm13, %%ymm\\r\n\t.endr\n\t"
      ".irp r,4,5,6,7\n\tvfmadd231ps %%ymm11, %%ymm13, %%ymm\\r\n\t.endr\n\t"
      ".irp r,8,9\n\tvfmadd231ps %%ymm12, %%ymm13, %%ymm\\r\n\t.endr\n\t"
      "dec %[rounds]\n\t"
      "jnz 1b\n\t"
      ".irp r,0,1,2,3,4,5,6,7,8,9\n\tvmovaps %%ymm\\r, 32*\\r(%[sums])\n\t.endr\n\t"
      "vzeroupper"
      : [rounds] "+r"(rounds)
      : [operands] "r"(&operands), [sums] "r"(&sums)
      : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
        "xmm11", "xmm12", "xmm13");
  return sums_are_right(sums, 1);
}

// CPUs from before 2013: no fused instruction, so a multiplication and an addition each.
bool run_sse2() {
  static const Operands operands = f32_operands();
  alignas(16) float sums[4][4];
  int64_t rounds = kVectorRounds;
  asm volatile(
      "movss 0(%[operands]), %%xmm8\n\tshufps $0, %%xmm8, %%xmm8\n\t"
      "movss 16(%[operands]), %%xmm9\n\tshufps $0, %%xmm9, %%xmm9\n\t"
      ".irp r,0,1,2,3\n\txorps %%xmm\\r, %%xmm\\r\n\t.endr\n"
      "1:\n\t"
      ".irp r,4,5,6,7\n\tmovaps %%xmm8, %%xmm\\r\n\tmulps %%xmm9, %%xmm\\r\n\t.endr\n\t"
      "addps %%xmm4, %%xmm0\n\taddps %%xmm5, %%xmm1\n\taddps %%xmm6, %%xmm2\n\taddps %%xmm7, %%xmm3\n\t"
      "dec %[rounds]\n\t"
      "jnz 1b\n\t"
      ".irp r,0,1,2,3\n\tmovaps %%xmm\\r, 16*\\r(%[sums])\n\t.endr"
      : [rounds] "+r"(rounds)
      : [operands] "r"(&operands), [sums] "r"(&sums)
      : "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9");
  return sums_are_right(sums, 1);
}

// ---- reads ----

__attribute__((target("avx512f"))) void read_512(const std::byte* data, size_t size_bytes) {
  for (const std::byte* block = data; block < data + size_bytes; block += kReadBlock)
    for (size_t i = 0; i < kReadPage; i += 128)
#pragma GCC unroll 8
      for (size_t page = 0; page < kReadPages; ++page) {
        const std::byte* at = block + page * kReadPage + i;
        __m512i first = _mm512_load_si512(at), second = _mm512_load_si512(at + 64);
        asm volatile("" : : "v"(first), "v"(second));
      }
}

__attribute__((target("avx2"))) void read_256(const std::byte* data, size_t size_bytes) {
  for (const std::byte* block = data; block < data + size_bytes; block += kReadBlock)
    for (size_t i = 0; i < kReadPage; i += 64)
#pragma GCC unroll 8
      for (size_t page = 0; page < kReadPages; ++page) {
        const std::byte* at = block + page * kReadPage + i;
        __m256i first = _mm256_load_si256(reinterpret_cast<const __m256i*>(at));
        __m256i second = _mm256_load_si256(reinterpret_cast<const __m256i*>(at + 32));
        asm volatile("" : : "x"(first), "x"(second));
      }
}

void read_128(const std::byte* data, size_t size_bytes) {
  for (const std::byte* block = data; block < data + size_bytes; block += kReadBlock)
    for (size_t i = 0; i < kReadPage; i += 16)
      for (size_t page = 0; page < kReadPages; ++page) {
        __m128i value = _mm_load_si128(reinterpret_cast<const __m128i*>(block + page * kReadPage + i));
        asm volatile("" : : "x"(value));
      }
}

constexpr double vector_flops(int sums, int products) { return 2.0 * kVectorRounds * sums * products; }

}  // namespace

std::vector<PeakKernel> bf16_peak_kernels() {
  const CpuFeatures& f = cpu_features();
  std::vector<PeakKernel> found;
  if (f.amx_bf16) found.push_back({"tdpbf16ps (AMX)", 2.0 * kAmxRounds * 4 * 16 * 16 * 32, run_amx});
  if (f.avx512_bf16) found.push_back({"vdpbf16ps (AVX-512 BF16)", vector_flops(16, 32), run_dpbf16});
  if (f.avx512) found.push_back({"vfmadd231ps zmm (AVX-512), bf16 widened to f32", vector_flops(16, 16), run_fma512});
  if (f.avx2) found.push_back({"vfmadd231ps ymm (AVX2), bf16 widened to f32", vector_flops(10, 8), run_fma256});
  found.push_back({"mulps and addps (SSE2), bf16 widened to f32", vector_flops(4, 4), run_sse2});
  return found;
}

std::vector<PeakKernel> f32_peak_kernels() {
  const CpuFeatures& f = cpu_features();
  std::vector<PeakKernel> found;
  if (f.avx512) found.push_back({"vfmadd231ps zmm (AVX-512)", vector_flops(16, 16), run_fma512});
  if (f.avx2) found.push_back({"vfmadd231ps ymm (AVX2)", vector_flops(10, 8), run_fma256});
  found.push_back({"mulps and addps (SSE2)", vector_flops(4, 4), run_sse2});
  return found;
}

std::vector<ReadKernel> read_kernels() {
  const CpuFeatures& f = cpu_features();
  std::vector<ReadKernel> found;
  if (f.avx512) found.push_back({"64-byte loads from eight pages", read_512});
  if (f.avx2) found.push_back({"32-byte loads from eight pages", read_256});
  found.push_back({"16-byte loads from eight pages", read_128});
  return found;
}

}  // namespace fk
