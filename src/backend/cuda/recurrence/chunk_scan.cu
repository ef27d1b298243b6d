// The part of the chunk form that needs the state: a block has 32 columns of a head's state, and goes through the
// chunks of its sequence. The state stays in registers in f32; products are in TF32.
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/recurrence/chunk_scratch.cuh"

namespace fk::cuda {
namespace {

constexpr int kScanThreads = 256, kScanWarps = kScanThreads / 32, kColumns = 32;
constexpr int kColumnTiles = kColumns / 8;
constexpr int kRowTiles = 2;         // of the state, for each warp: 16 channels each
constexpr int kWide = kColumns + 8;  // distances of rows that keep fragments free of bank conflicts
constexpr int kSquare = kChunk + 4;
__host__ __device__ constexpr int by_rows(int channels) { return channels + 4; }
__host__ __device__ constexpr int by_columns(int channels) { return channels + 8; }

struct ScanMemory {
  float *S, *v, *u, *q, *k, *w, *b, *qk, *p, *qb;
  size_t floats = 0;

  __host__ __device__ ScanMemory(float* base, Delta delta, int channels) {
    const bool any = delta != Delta::kNone, vectors = delta == Delta::kVectors;
    auto take = [&](bool needed, size_t n) {
      float* at = base + floats;
      if (needed) floats += n;
      return at;
    };
    S = take(true, static_cast<size_t>(channels) * kWide);
    v = take(true, kChunk * kWide);
    u = take(vectors, kChunk * kWide);
    q = take(true, static_cast<size_t>(kChunk) * by_rows(channels));
    k = take(true, static_cast<size_t>(kChunk) * by_columns(channels));
    w = take(any, static_cast<size_t>(kChunk) * by_rows(channels));
    b = take(vectors, static_cast<size_t>(kChunk) * by_columns(channels));
    qk = take(true, kChunk * kSquare);
    p = take(any, kChunk * kSquare);
    qb = take(vectors, kChunk * kSquare);
  }
};

// 64 rows from global to shared memory, without waiting; a warp has every eighth row.
__device__ __forceinline__ void copy_rows_async(const float* from, int width, float* to, int distance) {
  for (int row = threadIdx.x / 32; row < kChunk; row += kScanWarps)
    for (int at = threadIdx.x % 32 * 4; at < width; at += 128) {
      const auto target = static_cast<uint32_t>(__cvta_generic_to_shared(to + row * distance + at));
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(from + row * width + at) : "memory");
    }
}
__device__ __forceinline__ void end_of_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most kPending groups of copies are in flight.
template <int kPending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ __forceinline__ void multiply_add(float (&c)[4], const float (&a)[4], const float (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
        "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

// acc += A B for 16 rows from `row` and N tiles of 8 columns from `column`; the inner dimension is `depth`. A is
// [rows, depth], or [depth, rows] where kTransposed.
template <bool kTransposed, int N>
__device__ __forceinline__ void product(float (&acc)[N][4], const float* A, int a_distance, int row, const float* B,
                                        int column, int depth) {
  const int group = threadIdx.x % 32 / 4, lane = threadIdx.x % 4;
  for (int d = 0; d < depth; d += 8) {
    float a[4];
    if constexpr (kTransposed) {
      const float* at = A + (d + lane) * a_distance + row + group;
      a[0] = at[0];
      a[1] = at[8];
      a[2] = at[4 * a_distance];
      a[3] = at[4 * a_distance + 8];
    } else {
      const float* at = A + (row + group) * a_distance + d + lane;
      a[0] = at[0];
      a[1] = at[8 * a_distance];
      a[2] = at[4];
      a[3] = at[8 * a_distance + 4];
    }
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float* at = B + (d + lane) * kWide + column + n * 8 + group;
      const float b[2] = {at[0], at[4 * kWide]};
      multiply_add(acc[n], a, b);
    }
  }
}

// Calls body(row, column, value) for the four numbers of a tile that this thread has.
template <class Body>
__device__ __forceinline__ void each_of_tile(float (&tile)[4], int row, int column, Body&& body) {
  const int group = threadIdx.x % 32 / 4, lane = threadIdx.x % 4;
#pragma unroll
  for (int r = 0; r < 4; ++r) body(row + group + r / 2 * 8, column + lane * 2 + r % 2, tile[r]);
}

template <class T, Delta kDelta>
__global__ void __launch_bounds__(kScanThreads) scan_sequence(const DeviceRecurrence<T> c, const ChunkScratch in) {
  extern __shared__ __align__(16) float shared[];
  let_next_start();
  wait_for_previous();
  const int s = blockIdx.z, h = blockIdx.y, first_column = blockIdx.x * kColumns;
  const int64_t begin = c.begin(s), end = c.end(s);
  int first_chunk = 0;
  for (int before = 0; before < s; ++before)
    first_chunk += static_cast<int>((c.end(before) - c.begin(before) + kChunk - 1) / kChunk);
  const int last_chunk = first_chunk + static_cast<int>((end - begin + kChunk - 1) / kChunk);
  const int from = max(first_chunk, in.first), to = min(last_chunk, in.first + in.count);
  if (from >= to) return;  // the whole block

  const ScanMemory m(shared, kDelta, in.channels);
  const int warp = threadIdx.x / 32, row_tiles = in.channels / 16;
  const int slot = c.slots[s];
  float* base = c.state + (static_cast<int64_t>(slot < 0 ? 0 : slot) * c.H + h) * c.K * c.V;
  float S[kRowTiles][kColumnTiles][4];
  auto each_of_state = [&](auto&& body) {
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      const int tile = warp + r * kScanWarps;
      if (tile >= row_tiles) continue;
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) each_of_tile(S[r][n], tile * 16, n * 8, body);
    }
  };
  each_of_state([&](int row, int column, float& x) {
    const bool inside = slot >= 0 && row < c.K && first_column + column < c.V;
    x = inside ? base[static_cast<int64_t>(row) * c.V + first_column + column] : 0.0f;
    m.S[row * kWide + column] = to_tf32(x);
  });

  // A chunk has three phases: U from w and p, the output from q, qk and qb, the new state from k and b. What a phase
  // has read is replaced by that of the next chunk at once, so that copies have two phases to arrive.
  auto copy_for_u = [&](int chunk) {
    if constexpr (kDelta != Delta::kNone) {
      if (chunk < to) {
        copy_rows_async(in.rows(in.w, chunk, h), in.channels, m.w, by_rows(in.channels));
        copy_rows_async(in.square(in.p, chunk, h), kChunk, m.p, kSquare);
      }
    }
    end_of_copies();
  };
  auto copy_for_output = [&](int chunk) {
    if (chunk < to) {
      copy_rows_async(in.rows(in.q, chunk, h), in.channels, m.q, by_rows(in.channels));
      copy_rows_async(in.square(in.qk, chunk, h), kChunk, m.qk, kSquare);
      if constexpr (kDelta == Delta::kVectors) copy_rows_async(in.square(in.qb, chunk, h), kChunk, m.qb, kSquare);
    }
    end_of_copies();
  };
  auto copy_for_state = [&](int chunk) {
    if (chunk < to) {
      copy_rows_async(in.rows(in.k, chunk, h), in.channels, m.k, by_columns(in.channels));
      if constexpr (kDelta == Delta::kVectors)
        copy_rows_async(in.rows(in.b, chunk, h), in.channels, m.b, by_columns(in.channels));
    }
    end_of_copies();
  };
  // Values wait in registers, since all three phases read them.
  constexpr int kValues = kChunk * kColumns / kScanThreads;
  float values[kValues];
  auto load_values = [&](int chunk) {
    const int64_t first_token = begin + static_cast<int64_t>(chunk - first_chunk) * kChunk;
    const int column = threadIdx.x % kColumns;
    const T* v = c.v.row(first_token, h, c.H) + first_column + column;
#pragma unroll
    for (int j = 0; j < kValues; ++j) {
      const int t = threadIdx.x / kColumns + j * kScanWarps;
      const bool inside = chunk < to && first_token + t < end && first_column + column < c.V;
      values[j] = inside ? to_float(v[t * c.v.token]) : 0.0f;
    }
  };
  static_assert(kColumns == 32, "a warp loads the values of a token");
  copy_for_u(from);
  copy_for_output(from);
  copy_for_state(from);
  load_values(from);

  for (int chunk = from; chunk < to; ++chunk) {
    const int64_t first_token = begin + static_cast<int64_t>(chunk - first_chunk) * kChunk;
    const int tokens = static_cast<int>(end - first_token < kChunk ? end - first_token : kChunk);
#pragma unroll
    for (int j = 0; j < kValues; ++j)
      m.v[(threadIdx.x / kColumns + j * kScanWarps) * kWide + threadIdx.x % kColumns] = values[j];
    load_values(chunk + 1);
    float decay[kRowTiles][2];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      const int i = (warp + r * kScanWarps) * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
      const bool inside = warp + r * kScanWarps < row_tiles;
      decay[r][0] = inside ? in.decays(chunk, h)[i] : 0.0f;
      decay[r][1] = inside ? in.decays(chunk, h)[i + 8] : 0.0f;
    }

    // Of [64, 32] each warp has 16 rows and 16 columns.
    const int row = warp % 4 * 16, column = warp / 4 * 16;
    if constexpr (kDelta != Delta::kNone) {
      wait_for_copies<2>();
      __syncthreads();
      float u[2][4] = {};
      product<false>(u, m.w, by_rows(in.channels), row, m.S, column, in.channels);
      product<false>(u, m.p, kSquare, row, m.v, column, kChunk);
      if constexpr (kDelta == Delta::kBeta) __syncthreads();  // v has been read
#pragma unroll
      for (int n = 0; n < 2; ++n)
        each_of_tile(u[n], row, column + n * 8, [&](int t, int j, float x) {
          if constexpr (kDelta == Delta::kBeta)
            m.v[t * kWide + j] = to_tf32(m.v[t * kWide + j] - x);
          else
            m.u[t * kWide + j] = to_tf32(x);
        });
    }
    wait_for_copies<1>();
    __syncthreads();
    copy_for_u(chunk + 1);
    float o[2][4] = {};
    product<false>(o, m.q, by_rows(in.channels), row, m.S, column, in.channels);
    product<false>(o, m.qk, kSquare, row, m.v, column, kChunk);
    if constexpr (kDelta == Delta::kVectors) product<false>(o, m.qb, kSquare, row, m.u, column, kChunk);
#pragma unroll
    for (int n = 0; n < 2; ++n)
      each_of_tile(o[n], row, column + n * 8, [&](int t, int j, float x) {
        if (t < tokens && first_column + j < c.V)
          c.out[(first_token + t) * c.out_token + h * c.out_head + first_column + j] = from_float<T>(x);
      });

    wait_for_copies<1>();
    __syncthreads();
    copy_for_output(chunk + 1);
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r) {
      const int tile = warp + r * kScanWarps;
      if (tile >= row_tiles) continue;
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) S[r][n][e] *= decay[r][e / 2];
      product<true>(S[r], m.k, by_columns(in.channels), tile * 16, m.v, 0, kChunk);
      if constexpr (kDelta == Delta::kVectors)
        product<true>(S[r], m.b, by_columns(in.channels), tile * 16, m.u, 0, kChunk);
    }
    __syncthreads();  // everything in shared memory has been read
    copy_for_state(chunk + 1);
    each_of_state([&](int i, int j, float& x) { m.S[i * kWide + j] = to_tf32(x); });
  }

  if (slot < 0) return;
  each_of_state([&](int i, int j, float& x) {
    if (i < c.K && first_column + j < c.V) base[static_cast<int64_t>(i) * c.V + first_column + j] = x;
  });
}

}  // namespace

size_t scan_shared_bytes(Delta delta, int channels) { return 4 * ScanMemory(nullptr, delta, channels).floats; }

template <class T>
void scan_chunks(Delta delta, const DeviceRecurrence<T>& call, const ChunkScratch& scratch, void* stream) {
  with_delta(delta, [&](auto which) {
    constexpr Delta kDelta = decltype(which)::value;
    static const bool allowed = [] {
      allow_shared_memory("linear_recurrence", scan_sequence<T, kDelta>, kMostSharedBytes);
      return true;
    }();
    (void)allowed;
    const dim3 grid(blocks_for(call.V, kColumns), static_cast<unsigned>(call.H), static_cast<unsigned>(call.sequences));
    launch("linear_recurrence", scan_sequence<T, kDelta>, grid, dim3(kScanThreads),
           scan_shared_bytes(kDelta, scratch.channels), stream, call, scratch);
  });
}

template void scan_chunks(Delta, const DeviceRecurrence<__half>&, const ChunkScratch&, void*);
template void scan_chunks(Delta, const DeviceRecurrence<__nv_bfloat16>&, const ChunkScratch&, void*);

}  // namespace fk::cuda
