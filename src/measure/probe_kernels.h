// The inner loops of the machine probe: one file per architecture, the instructions chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fk {

// Multiply-adds on registers alone: independent accumulators, nothing loaded or stored inside the loop, so no program
// can do more. The operands are whole numbers of at most 3 and stay the same, so the sums are exact and checkable:
// run() says whether they came out right, which also keeps the compiler from dropping the loop.
struct PeakKernel {
  const char* instruction;  // what is repeated, and the extension it belongs to
  double flops;             // of one run(), a multiply-add counted as two
  bool (*run)();            // takes about 0.1 to 0.5 ms
};

// Those this CPU can run, the best first; never empty.
std::vector<PeakKernel> bf16_peak_kernels();
std::vector<PeakKernel> f32_peak_kernels();

// Reads every byte of [data, data + size_bytes) once; both are multiples of kReadBlock.
struct ReadKernel {
  const char* instruction;
  void (*run)(const std::byte* data, size_t size_bytes);
};

std::vector<ReadKernel> read_kernels();  // likewise

// Eight 4 KiB pages are read side by side: hardware prefetchers follow one stream per page, and one stream alone leaves
// about a fifth of a core's bandwidth unused.
inline constexpr size_t kReadPage = 4096;
inline constexpr size_t kReadPages = 8;
inline constexpr size_t kReadBlock = kReadPage * kReadPages;

// Operands of the peak kernels: whole numbers of 1 to 3 with changing sign, so that neither zeros nor equal values save
// the multipliers work.
constexpr int peak_operand(size_t i) {
  constexpr int kValues[] = {1, -2, 3, 2, -1, 3, -3, 1, 2, -3, -1, 2, 1};
  return kValues[i % 13];
}

}  // namespace fk
