#include "backend/cuda/decode_megakernel/pack_mxfp4.h"

#include "backend/cuda/decode_megakernel/packed_plan.h"
#include "backend/cuda/device/launch.cuh"

namespace fk::cuda {
namespace {

constexpr int kThreads = 256;

// A thread for each 16 bytes of a packed row: the codes of a block, or 16 scales.
__global__ void __launch_bounds__(kThreads)
    pack_mxfp4_rows(const uint8_t* stored, int64_t rows, int blocks, int pieces, uint4* packed) {
  wait_for_previous();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x, row = i / pieces;
  const int piece = static_cast<int>(i - row * pieces);
  if (row >= rows) return;
  const uint8_t* from = stored + row * blocks * (kMxfp4CodeBytes + 1);
  uint32_t words[4] = {};
  for (int b = 0; b < 16; ++b) {
    uint32_t byte = 0;
    if (piece < blocks)
      byte = from[piece * (kMxfp4CodeBytes + 1) + 1 + b];
    else if (const int block = 16 * (piece - blocks) + b; block < blocks)
      byte = from[block * (kMxfp4CodeBytes + 1)];
    words[b / 4] |= byte << (8 * (b % 4));
  }
  packed[i] = {words[0], words[1], words[2], words[3]};
}

}  // namespace

void pack_mxfp4(const void* stored, int64_t rows, int length, void* packed, void* stream) {
  const int blocks = length / kMxfp4Elements, pieces = packed_row_bytes(length) / 16;
  launch("pack_mxfp4", pack_mxfp4_rows, blocks_for(rows * pieces, kThreads), kThreads, 0, stream,
         static_cast<const uint8_t*>(stored), rows, blocks, pieces, static_cast<uint4*>(packed));
}

}  // namespace fk::cuda
