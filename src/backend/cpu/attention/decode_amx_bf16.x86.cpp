// Products of queries and keys with AMX tiles: sixteen keys of a cache block are a tile without copying, the query
// heads of a group are the columns of the other operand.
#include "backend/cpu/attention/decode.h"
#include "backend/cpu/matmul/amx_tiles.x86.h"

namespace fk {
namespace {

using amx::kTileBytes;
using amx::kTileColumns;
using amx::kTileRows;

static_assert(kDecodeKeys == 4 * kTileRows);

int64_t tiles_of(int64_t group) { return (group + kTileRows - 1) / kTileRows; }

// [tiles of the group][step] tiles of pairs of elements by sixteen heads.
size_t query_bytes(int64_t group, int64_t head_size) {
  return static_cast<size_t>(tiles_of(group) * (head_size / kTileColumns) * kTileBytes);
}

FK_AMX void prepare(const QueryTask& t) {
  std::byte* tile = t.query;
  for (int64_t head = 0; head < t.group; head += kTileRows)
    for (int64_t d = 0; d < t.head_size; d += kTileColumns, tile += kTileBytes)
      amx::pack_pairs(t.q + head, t.group - head, d, t.head_size, tile);
}

// Four tiles of sixteen keys by sixteen heads; tiles past the last key repeat the first.
FK_AMX void multiply(const KeyTask& t) {
  alignas(64) float products[kDecodeKeys][kTileRows];
  const std::byte* k[4];
  for (int64_t i = 0; i < 4; ++i) k[i] = static_cast<const std::byte*>(t.k[i * kTileRows < t.keys ? i * kTileRows : 0]);
  int64_t steps = t.head_size / kTileColumns;
  amx::use_whole_tiles();
  for (int64_t tile = 0; tile < tiles_of(t.group); ++tile) {
    const std::byte* q = t.query + tile * steps * kTileBytes;
    amx::memory_barrier();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t s = 0; s < steps; ++s) {
      _tile_loadd(6, q + s * kTileBytes, 64);
      _tile_loadd(4, k[0] + s * 64, t.k_stride_bytes);
      _tile_loadd(5, k[1] + s * 64, t.k_stride_bytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 5, 6);
      _tile_loadd(4, k[2] + s * 64, t.k_stride_bytes);
      _tile_loadd(5, k[3] + s * 64, t.k_stride_bytes);
      _tile_dpbf16ps(2, 4, 6);
      _tile_dpbf16ps(3, 5, 6);
    }
    _tile_stored(0, products, 64);
    _tile_stored(1, products + kTileRows, 64);
    _tile_stored(2, products + 2 * kTileRows, 64);
    _tile_stored(3, products + 3 * kTileRows, 64);
    amx::memory_barrier();
    int64_t first_quad = tile * kTileRows / kQuad, quads = quads_of(t.group) - first_quad;
    for (int64_t quad = 0; quad < quads && quad < kTileRows / kQuad; ++quad) {
      float* to = t.scores + (first_quad + quad) * kDecodeKeys * kQuad;
      for (int64_t j = 0; j < t.keys; ++j) _mm_storeu_ps(to + j * kQuad, _mm_load_ps(products[j] + quad * kQuad));
    }
  }
  _tile_release();
}

}  // namespace

const DecodeKernel kDecodeAmxBf16{query_bytes, prepare, multiply};

}  // namespace fk
