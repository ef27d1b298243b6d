// Aarch64 loops of the machine probe: BFMMLA where the CPU has it, FMLA everywhere.
#include <arm_neon.h>

#include <bit>

#include "core/cpu_features.h"
#include "core/dtype.h"
#include "measure/probe_kernels.h"

namespace fk {
namespace {

constexpr int64_t kRounds = 32768;  // |sum| <= 32768 * 4 * 9 < 2^24: exact in f32

struct alignas(16) Operands {
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

bool sums_are_right(const float (&sums)[16][4], int products_per_round) {
  for (size_t r = 0; r < 16; ++r)
    for (float sum : sums[r])
      if (!(sum == static_cast<float>(products_per_round * kRounds * peak_operand(r / 4) * peak_operand(4))))
        return false;
  return true;
}

// The whole loop is assembly: in C++, g++ 12 keeps the sums of such a loop in memory. Sum r accumulates operand r / 4
// times the last operand; 16 sums cover 4 pipes of 4 cycles' latency.
#define FK_NEON_LOOP(instruction, width)                                                                               \
  alignas(16) float sums[16][4];                                                                                       \
  const uint32_t* lane = operands.lanes;                                                                               \
  float(*sum)[4] = sums;                                                                                               \
  int64_t rounds = kRounds;                                                                                            \
  asm volatile(                                                                                                        \
      ".irp r,16,17,18,19,20\n\tld1r {v\\r\\().4s}, [%[lane]], #4\n\t.endr\n\t"                                        \
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\tmovi v\\r\\().4s, #0\n\t.endr\n"                                \
      "1:\n\t"                                                                                                         \
      ".irp r,0,1,2,3\n\t" instruction " v\\r\\().4s, v16." width ", v20." width                                       \
      "\n\t.endr\n\t"                                                                                                  \
      ".irp r,4,5,6,7\n\t" instruction " v\\r\\().4s, v17." width ", v20." width                                       \
      "\n\t.endr\n\t"                                                                                                  \
      ".irp r,8,9,10,11\n\t" instruction " v\\r\\().4s, v18." width ", v20." width                                     \
      "\n\t.endr\n\t"                                                                                                  \
      ".irp r,12,13,14,15\n\t" instruction " v\\r\\().4s, v19." width ", v20." width                                   \
      "\n\t.endr\n\t"                                                                                                  \
      "subs %[rounds], %[rounds], #1\n\t"                                                                              \
      "b.ne 1b\n\t"                                                                                                    \
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\tstr q\\r, [%[sum]], #16\n\t.endr"                               \
      : [rounds] "+r"(rounds), [lane] "+r"(lane), [sum] "+r"(sum)                                                      \
      :                                                                                                                \
      : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", \
        "v15", "v16", "v17", "v18", "v19", "v20")

bool run_fmla() {
  static const Operands operands = f32_operands();
  FK_NEON_LOOP("fmla", "4s");
  return sums_are_right(sums, 1);
}

// Each instruction adds a 2x4 times 4x2 product to a 2x2 result.
__attribute__((target("+bf16"))) bool run_bfmmla() {
  static const Operands operands = bf16_operands();
  FK_NEON_LOOP("bfmmla", "8h");
  return sums_are_right(sums, 4);
}

void read_128(const std::byte* data, size_t size_bytes) {
  for (const std::byte* block = data; block < data + size_bytes; block += kReadBlock)
    for (size_t i = 0; i < kReadPage; i += 64)
#pragma GCC unroll 8
      for (size_t page = 0; page < kReadPages; ++page) {
        const uint8_t* at = reinterpret_cast<const uint8_t*>(block) + page * kReadPage + i;
        uint8x16_t first = vld1q_u8(at), second = vld1q_u8(at + 16), third = vld1q_u8(at + 32),
                   fourth = vld1q_u8(at + 48);
        asm volatile("" : : "w"(first), "w"(second), "w"(third), "w"(fourth));
      }
}

}  // namespace

std::vector<PeakKernel> bf16_peak_kernels() {
  std::vector<PeakKernel> found;
  if (cpu_features().neon_bf16) found.push_back({"bfmmla (NEON BF16)", 2.0 * kRounds * 16 * 16, run_bfmmla});
  found.push_back({"fmla (NEON), bf16 widened to f32", 2.0 * kRounds * 16 * 4, run_fmla});
  return found;
}

std::vector<PeakKernel> f32_peak_kernels() { return {{"fmla (NEON)", 2.0 * kRounds * 16 * 4, run_fmla}}; }

std::vector<ReadKernel> read_kernels() { return {{"16-byte loads from eight pages", read_128}}; }

}  // namespace fk
