// The prefill kernel for every CPU: f32 arithmetic in loops the compiler vectorises, sixteen queries in parallel lanes.
//
// Both products have one form: eight rows of sums, a step of the reduction adds eight numbers of a packed panel times
// one vector of lanes. Keys are packed [key / 8][Dh][8] for the scores, values [Dh / 8][key][8] for the output.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/attention/prefill.h"
#include "backend/cpu/row_kernel.h"
#include "backend/cpu/vector_math.h"

namespace fk {
namespace {

constexpr int64_t kLanes = 16;  // queries: one AVX-512 register, two of AVX2, four of NEON
constexpr int64_t kPanel = 8;   // independent sums: enough to hide the latency of a multiply-add
constexpr float kInfinity = std::numeric_limits<float>::infinity();

int64_t padded(int64_t head_size) { return (head_size + kPanel - 1) / kPanel * kPanel; }

// sums[kPanel][kLanes] += panel[steps][kPanel] * lanes[steps][kLanes]; steps > 0.
FK_SIMD_CLONES void add_product(const float* __restrict panel, const float* __restrict lanes, int64_t steps,
                                float* __restrict sums) {
#pragma omp simd
  for (int64_t l = 0; l < kLanes; ++l) {
    float sum[kPanel];
#pragma GCC unroll 8
    for (int64_t u = 0; u < kPanel; ++u) sum[u] = sums[u * kLanes + l];
    int64_t i = 0;
    do {  // tested at its end, since GCC vectorises the loop around it only when this one always runs
#pragma GCC unroll 8
      for (int64_t u = 0; u < kPanel; ++u) sum[u] += panel[i * kPanel + u] * lanes[i * kLanes + l];
    } while (++i < steps);
#pragma GCC unroll 8
    for (int64_t u = 0; u < kPanel; ++u) sums[u * kLanes + l] = sum[u];
  }
}

struct Softmax {
  float largest[kLanes];
  float sum[kLanes];
  float rescale[kLanes];  // what the outputs so far must be multiplied by
};

// Scores [keys][kLanes] become weights.
FK_SIMD_CLONES void online_softmax(float* __restrict scores, int64_t keys, Softmax& state) {
  float largest[kLanes], shift[kLanes], sum[kLanes] = {};
  for (int64_t l = 0; l < kLanes; ++l) largest[l] = state.largest[l];
  for (int64_t j = 0; j < keys; ++j)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) {
      float s = scores[j * kLanes + l];
      largest[l] = s > largest[l] ? s : largest[l];
    }
#pragma omp simd
  for (int64_t l = 0; l < kLanes; ++l) {
    shift[l] = largest[l] == -kInfinity ? 0.0f : largest[l];  // a lane that has seen no key yet
    state.rescale[l] = vexp(state.largest[l] - shift[l]);
    state.largest[l] = largest[l];
  }
  for (int64_t j = 0; j < keys; ++j)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) {
      float weight = vexp(scores[j * kLanes + l] - shift[l]);
      scores[j * kLanes + l] = weight;
      sum[l] += weight;
    }
  for (int64_t l = 0; l < kLanes; ++l) state.sum[l] = state.sum[l] * state.rescale[l] + sum[l];
}

FK_SIMD_CLONES void rescale_rows(float* __restrict sums, int64_t rows, const float* __restrict by) {
  for (int64_t d = 0; d < rows; ++d)
#pragma omp simd
    for (int64_t l = 0; l < kLanes; ++l) sums[d * kLanes + l] *= by[l];
}

template <class T>
void pack_rows(const PackBlockTask& t) {
  int64_t Dh = t.head_size, columns = padded(t.value_size);
  auto* keys = reinterpret_cast<float*>(t.block);
  float* values = keys + kKeysPerBlock * Dh;
  std::fill_n(values, kKeysPerBlock * columns, 0.0f);
  for (int64_t j = 0; j < kKeysPerBlock; ++j) {
    float* key = keys + j / kPanel * kPanel * Dh + j % kPanel;
    if (j >= t.keys) {
      for (int64_t d = 0; d < Dh; ++d) key[d * kPanel] = 0;
      continue;
    }
    auto *k = static_cast<const T*>(t.k[j]), *v = static_cast<const T*>(t.v[j]);
    for (int64_t d = 0; d < Dh; ++d) key[d * kPanel] = load(k[d]);
    for (int64_t d = 0; d < t.value_size; ++d) values[(d / kPanel * kKeysPerBlock + j) * kPanel + d % kPanel] = load(v[d]);
  }
}

void pack(const PackBlockTask& task) {
  with_float(task.dtype, [&]<class T>(T) { pack_rows<T>(task); });
}

template <class T>
void load_queries(const AttendTask& t, float* q) {
  for (int64_t l = 0; l < kLanes; ++l)
    for (int64_t d = 0; d < t.head_size; ++d) q[d * kLanes + l] = load(static_cast<const T*>(t.q[l])[d]);
}

template <class T>
void store_outputs(const AttendTask& t, const float* sums, const Softmax& state) {
  for (int64_t l = 0; l < t.rows; ++l) {
    float factor = t.first[l] < t.last[l] ? 1 / state.sum[l] : 0.0f;  // a query without keys yields zero
    for (int64_t d = 0; d < t.value_size; ++d) store(static_cast<T*>(t.out[l])[d], sums[d * kLanes + l] * factor);
  }
}

void store_lse(const AttendTask& t, const Softmax& state) {
  for (int64_t l = 0; l < kLanes; ++l)
    t.lse[l] = t.first[l] < t.last[l] ? state.largest[l] + std::log(state.sum[l]) : -kInfinity;
}

size_t block_bytes(int64_t head_size, int64_t value_size) {
  return static_cast<size_t>(kKeysPerBlock * (head_size + padded(value_size))) * sizeof(float);
}

size_t scratch_bytes(int64_t head_size, int64_t value_size) {
  return static_cast<size_t>((head_size + kKeysPerBlock + padded(value_size)) * kLanes) * sizeof(float);
}

void attend(const AttendTask& t) {
  int64_t Dh = t.head_size, columns = padded(t.value_size);
  auto* q = reinterpret_cast<float*>(t.scratch);  // [Dh][kLanes]
  float* scores = q + Dh * kLanes;                // [kKeysPerBlock][kLanes]
  float* sums = scores + kKeysPerBlock * kLanes;  // [columns][kLanes]
  with_float(t.dtype, [&]<class T>(T) { load_queries<T>(t, q); });
  std::fill_n(sums, columns * kLanes, 0.0f);
  Softmax state{};
  std::fill_n(state.largest, kLanes, -kInfinity);
  if (t.sinks != nullptr) {  // as a key with this score, whose value is zero
    std::copy_n(t.sinks, kLanes, state.largest);
    std::fill_n(state.sum, kLanes, 1.0f);
  }

  // Between these every row sees every key.
  int32_t all_from = *std::max_element(t.first, t.first + kLanes), all_to = *std::min_element(t.last, t.last + kLanes);
  for (int64_t b = t.first_block; b < t.last_block; ++b) {
    const auto* keys =
        reinterpret_cast<const float*>(t.blocks + static_cast<size_t>(b - t.first_block) * block_bytes(Dh, t.value_size));
    const float* values = keys + kKeysPerBlock * Dh;
    int64_t key = b * kKeysPerBlock;
    std::fill_n(scores, kKeysPerBlock * kLanes, 0.0f);
    for (int64_t j = 0; j < kKeysPerBlock; j += kPanel) add_product(keys + j * Dh, q, Dh, scores + j * kLanes);
    finish_scores(scores, kKeysPerBlock * kLanes, t.rule);
    if (key < all_from || key + kKeysPerBlock > all_to)
      mask_scores(scores, kKeysPerBlock, kLanes, key, t.first, t.last);
    online_softmax(scores, kKeysPerBlock, state);
    rescale_rows(sums, columns, state.rescale);
    for (int64_t d = 0; d < columns; d += kPanel)
      add_product(values + d * kKeysPerBlock, scores, kKeysPerBlock, sums + d * kLanes);
  }
  with_float(t.float_out ? DType::kF32 : t.dtype, [&]<class T>(T) { store_outputs<T>(t, sums, state); });
  if (t.lse != nullptr) store_lse(t, state);
}

}  // namespace

const PrefillKernel kPrefillTiles{kLanes, block_bytes, scratch_bytes, pack, attend};

}  // namespace fk
