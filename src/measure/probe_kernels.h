// The inner loops of the machine probe: one file per architecture, the instructions chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fk {

// Multiply-adds on registers alone: independent accumulators and no loads or stores inside the loop, so no program can
// do more. The operands are constant integers of at most 3, so the sums are exact: run() returns whether they are
// right, which also prevents the compiler from removing the loop.
struct PeakKernel {
  const char* instruction;  // the repeated instruction and its extension
  double flops;             // of one run(), a multiply-add counted as two
  bool (*run)();            // takes about 0.1 to 0.5 ms
};

// The kernels this CPU can run, the best first; never empty.
std::vector<PeakKernel> bf16_peak_kernels();
std::vector<PeakKernel> f32_peak_kernels();

// Reads every byte of [data, data + size_bytes) once; both are multiples of kReadBlock.
struct ReadKernel {
  const char* instruction;
  void (*run)(const std::byte* data, size_t size_bytes);
};

std::vector<ReadKernel> read_kernels();  // the same for reads

// Eight 4 KiB pages are read in parallel: hardware prefetchers follow one stream per page, and a single stream leaves
// about a fifth of a core's bandwidth unused.
inline constexpr size_t kReadPage = 4096;
inline constexpr size_t kReadPages = 8;
inline constexpr size_t kReadBlock = kReadPage * kReadPages;

// Operands of the peak kernels: integers of 1 to 3 with changing sign, since zeros or equal values would be less work
// for the multipliers.
constexpr int peak_operand(size_t i) {
  constexpr int kValues[] = {1, -2, 3, 2, -1, 3, -3, 1, 2, -3, -1, 2, 1};
  return kValues[i % 13];
}

}  // namespace fk
