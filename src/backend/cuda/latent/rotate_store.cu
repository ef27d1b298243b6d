// Of each token, one block has its latents, one the indexer's key, and the others a pair of query elements for each
// thread.
#include "backend/cuda/latent/rotate_store.h"

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/rotary_angles.cuh"
#include "core/check.h"

namespace fk::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
struct HeadsToTurn {
  T* at;
  int64_t token;
  int heads, head, first;  // elements of a head, and the first that is rotated
};

template <class T>
struct Pages {
  T* at;
  int64_t block, entry;
  int64_t page, slots;
};

template <class T>
struct Call {
  HeadsToTurn<T> queries, index_queries;
  const T *latents, *latent_norm, *index_keys, *index_norm, *index_norm_bias;
  int64_t latents_token, index_keys_token;
  Pages<T> cache, index_cache;
  const int64_t *positions, *slots;
  int64_t position_stride, slot_stride;
  int latent, index_head;
  float latent_eps, index_eps;
  PairFrequencies frequencies, index_frequencies;
};

// Where the elements of pair i lie among those that are rotated.
__device__ __forceinline__ int first_of_pair(const PairFrequencies& f, int i) { return f.halves ? i : 2 * i; }
__device__ __forceinline__ int second_of_pair(const PairFrequencies& f, int i) {
  return f.halves ? i + f.pairs : 2 * i + 1;
}

template <class T>
__device__ __forceinline__ void turn(const PairFrequencies& f, int i, int64_t position, const T* from, T* to) {
  const SinCos angle = sin_cos(static_cast<double>(position) * f.at[i]);
  const float c = angle.cos * f.factor, s = angle.sin * f.factor;
  const int a = first_of_pair(f, i), b = second_of_pair(f, i);
  const float x = to_float(from[a]), y = to_float(from[b]);
  to[a] = from_float<T>(x * c - y * s);
  to[b] = from_float<T>(y * c + x * s);
}

// The entry of a slot; null for slots that are not stored.
template <class T>
__device__ __forceinline__ T* entry_of(const Pages<T>& pages, int64_t slot) {
  if (slot < 0 || slot >= pages.slots) return nullptr;
  return pages.at + slot / pages.page * pages.block + slot % pages.page * pages.entry;
}

template <class T>
__device__ __forceinline__ void store_latents(const Call<T>& c, int64_t t, int64_t position, int64_t slot,
                                              float* scratch) {
  T* to = entry_of(c.cache, slot);
  if (to == nullptr) return;  // in all threads
  const T* from = c.latents + t * c.latents_token;
  for (int i = threadIdx.x; i < c.frequencies.pairs; i += kThreads)
    turn(c.frequencies, i, position, from + c.latent, to + c.latent);
  float squares = 0;
  for (int i = threadIdx.x; i < c.latent; i += kThreads) {
    const float x = to_float(from[i]);
    squares = fmaf(x, x, squares);
  }
  squares = reduce_block<Sum>(squares, scratch);
  const float scale = 1.0f / sqrtf(squares / static_cast<float>(c.latent) + c.latent_eps);
  for (int i = threadIdx.x; i < c.latent; i += kThreads)
    to[i] = from_float<T>(to_float(from[i]) * scale * to_float(c.latent_norm[i]));
}

template <class T>
__device__ __forceinline__ void store_index_key(const Call<T>& c, int64_t t, int64_t position, int64_t slot,
                                                float* scratch) {
  T* to = entry_of(c.index_cache, slot);
  if (to == nullptr) return;  // in all threads
  extern __shared__ __align__(16) unsigned char shared[];
  T* normed = reinterpret_cast<T*>(shared);
  const T* from = c.index_keys + t * c.index_keys_token;
  const auto width = static_cast<float>(c.index_head);
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < c.index_head; i += kThreads) sum += to_float(from[i]);
  const float mean = reduce_block<Sum>(sum, scratch) / width;
  for (int i = threadIdx.x; i < c.index_head; i += kThreads) {
    const float away = to_float(from[i]) - mean;
    squares = fmaf(away, away, squares);
  }
  squares = reduce_block<Sum>(squares, scratch);
  const float scale = 1.0f / sqrtf(squares / width + c.index_eps);
  for (int i = threadIdx.x; i < c.index_head; i += kThreads)
    normed[i] =
        from_float<T>((to_float(from[i]) - mean) * scale * to_float(c.index_norm[i]) + to_float(c.index_norm_bias[i]));
  __syncthreads();
  const int turned = 2 * c.index_frequencies.pairs;
  for (int i = threadIdx.x; i < c.index_frequencies.pairs; i += kThreads)
    turn(c.index_frequencies, i, position, normed, to);
  for (int i = turned + static_cast<int>(threadIdx.x); i < c.index_head; i += kThreads) to[i] = normed[i];
}

template <class T>
__global__ void __launch_bounds__(kThreads) rotate_and_store(const __grid_constant__ Call<T> c) {
  __shared__ float scratch[33];
  let_next_start();
  wait_for_previous();
  const int64_t t = blockIdx.x, position = c.positions[t * c.position_stride];
  if (blockIdx.y == 0) return store_latents(c, t, position, c.slots[t * c.slot_stride], scratch);
  if (blockIdx.y == 1) return store_index_key(c, t, position, c.slots[t * c.slot_stride], scratch);
  int item = static_cast<int>(blockIdx.y - 2) * kThreads + static_cast<int>(threadIdx.x);
  auto turn_heads = [&](const HeadsToTurn<T>& q, const PairFrequencies& f) {
    T* at = q.at + t * q.token + static_cast<int64_t>(item / f.pairs) * q.head + q.first;
    turn(f, item % f.pairs, position, at, at);
  };
  const int of_queries = c.queries.heads * c.frequencies.pairs,
            of_index = c.index_queries.heads * c.index_frequencies.pairs;
  if (item < of_queries) return turn_heads(c.queries, c.frequencies);
  item -= of_queries;
  if (item < of_index) turn_heads(c.index_queries, c.index_frequencies);
}

template <class T>
void launch_rotate_store(const LatentRotateStore& g, void* stream) {
  auto start_of = [](const View& v) { return static_cast<T*>(v.data()); };
  auto pages = [&](const View& cache) {
    return Pages<T>{.at = start_of(cache),
                    .block = cache.stride(0),
                    .entry = cache.stride(1),
                    .page = cache.size(1),
                    .slots = cache.size(0) * cache.size(1)};
  };
  const int index_head = static_cast<int>(g.index_keys.size(1));
  const Call<T> call{.queries = {.at = start_of(g.queries),
                                 .token = g.queries.stride(0),
                                 .heads = static_cast<int>(g.queries.size(1) / g.head),
                                 .head = static_cast<int>(g.head),
                                 .first = static_cast<int>(g.nope)},
                     .index_queries = {.at = start_of(g.index_queries),
                                       .token = g.index_queries.stride(0),
                                       .heads = static_cast<int>(g.index_queries.size(1)) / index_head,
                                       .head = index_head,
                                       .first = 0},
                     .latents = start_of(g.latents),
                     .latent_norm = start_of(g.latent_norm),
                     .index_keys = start_of(g.index_keys),
                     .index_norm = start_of(g.index_norm),
                     .index_norm_bias = start_of(g.index_norm_bias),
                     .latents_token = g.latents.stride(0),
                     .index_keys_token = g.index_keys.stride(0),
                     .cache = pages(g.cache),
                     .index_cache = pages(g.index_cache),
                     .positions = g.positions.ptr<int64_t>(),
                     .slots = g.slot_mapping.ptr<int64_t>(),
                     .position_stride = g.positions.stride(0),
                     .slot_stride = g.slot_mapping.stride(0),
                     .latent = static_cast<int>(g.latent_norm.size(0)),
                     .index_head = index_head,
                     .latent_eps = static_cast<float>(g.latent_eps),
                     .index_eps = static_cast<float>(g.index_eps),
                     .frequencies = g.frequencies,
                     .index_frequencies = g.index_frequencies};
  const int pairs =
      call.queries.heads * call.frequencies.pairs + call.index_queries.heads * call.index_frequencies.pairs;
  launch("latent_rotate_store", rotate_and_store<T>,
         dim3(static_cast<unsigned>(g.queries.size(0)), 2 + blocks_for(pairs, kThreads)), kThreads,
         static_cast<size_t>(index_head) * sizeof(T), stream, call);
}

}  // namespace

PairFrequencies PairFrequencies::of(const std::vector<double>& frequencies, double factor, bool halves) {
  FK_CHECK(frequencies.size() <= kMostLatentPairs);
  PairFrequencies all{};
  all.factor = static_cast<float>(factor);
  all.halves = halves;
  for (double f : frequencies) all.at[all.pairs++] = f;
  return all;
}

void latent_rotate_store(const LatentRotateStore& g, void* stream) {
  if (g.queries.dtype() == DType::kBF16)
    launch_rotate_store<__nv_bfloat16>(g, stream);
  else
    launch_rotate_store<__half>(g, stream);
}

}  // namespace fk::cuda
