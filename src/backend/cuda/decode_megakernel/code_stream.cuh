// Streams quantised weights through the token kernel: as weight_stream.cuh, with rows packed as
// quantised/token_layout.h describes it. To the load warps a row of codes is a row of as many 16-bit elements as it has
// bytes for; only the records of its scales are loaded beside it. The computing warps turn codes into pairs of elements
// in registers: eight segments of a row are eight rows of the left operand, as there.
#pragma once

#include "backend/cuda/decode_megakernel/staging.cuh"
#include "backend/cuda/decode_megakernel/weight_stream.cuh"
#include "backend/cuda/quantised/stored_codes.cuh"

namespace fk::cuda {

// Weights of the model's dtype.
struct ElementWeights {
  static constexpr TokenCodes kCodes = TokenCodes::kNone;
};

template <class Codes_>
struct CodedWeights {
  using Codes = Codes_;
  static constexpr TokenCodes kCodes = Codes::kToken;
  static constexpr bool kHalves = kCodes == TokenCodes::kInt4;  // multiplied as f16 (HalvesPlace)
  static constexpr TokenLayout kLayout = token_layout(kCodes);
  static constexpr int kColumns = kLayout.step_columns;                       // of a step
  static constexpr int kRecordBytes = kTokenSegments * kLayout.record_bytes;  // of a step; 0: a row has one scale
  static_assert(kTokenStepBytes == 2 * kStep && kColumns == kTokenSegments * Codes::kStep);
  static_assert(kRecordBytes % 16 == 0 && Codes::kRun >= 8 && !Codes::kMinimums);

  // The shape of the matrix as one of 16-bit elements.
  __device__ __forceinline__ static ProductShape in_elements(const ProductShape& s) {
    return {s.features, (s.length + kColumns - 1) / kColumns * kStep, s.gated};
  }
  // What follows the codes of a matrix.
  __device__ __forceinline__ static const std::byte* scales(const void* matrix, const ProductShape& elements) {
    const int64_t rows = elements.gated ? 2 * elements.features : elements.features;
    return static_cast<const std::byte*>(matrix) + rows * elements.length * 2;
  }
};

// Shared memory for the records of a slot: that of all slots follows the ring.
constexpr int record_bytes_of_slot(TokenCodes codes) {
  return kSlotBytes / kTokenStepBytes * kTokenSegments * token_layout(codes).record_bytes;
}
template <class Weights>
__device__ __forceinline__ uint32_t records_of_slot(const WeightRing& ring, uint32_t slot) {
  return ring.slot(ring.count) + (slot - ring.slots) / kTokenStepBytes * Weights::kRecordBytes;
}

// Loads this block's rows of the next product, a coded one.
template <class Weights, class T, class Handover>
__device__ __forceinline__ void fetch_coded(const DividedShape& shape, const void* matrix, const WeightRing& ring,
                                            PairShare& share, ChunkQueue<Handover>& queue) {
  const ProductShape s = Weights::in_elements(shape);
  if constexpr (Weights::kRecordBytes == 0) {
    fetch_product<T>(s, shape, matrix, share, queue, CopyWeights{});
  } else {
    const int thread = static_cast<int>(threadIdx.x) - kTokenThreads, warp = thread / 32, lane = thread % 32;
    const std::byte* scales = Weights::scales(matrix, s);
    const int64_t scales_of_row = s.length / kStep * Weights::kRecordBytes;
    share.for_rounds(shape, [&](int first, int count, int columns) {
      // As in fetch_product.
      const int row = s.gated ? first + warp / 2 + warp % 2 * s.features : 2 * first + warp;
      const int there = s.gated ? 2 * count : min(2 * count, s.features - 2 * first);
      const int rows = (there - warp + kFetchingWarps - 1) / kFetchingWarps, steps = columns / kStep;
      const int64_t stride = static_cast<int64_t>(s.gated ? kFetchingWarps / 2 : kFetchingWarps) * s.length;
      const T* from = static_cast<const T*>(matrix) + static_cast<int64_t>(row) * s.length + 8 * lane;
      const uint32_t own = static_cast<uint32_t>(warp * columns + 8 * lane) * sizeof(T);
      for (int column = 0; column < s.length; column += columns, from += columns) {
        const uint32_t slot = queue.begin();
        fetch_chunk(slot + own, from, stride, rows, steps, s.length - column - 8 * lane, column + columns > s.length,
                    CopyWeights{});
        const uint32_t records = records_of_slot<Weights>(ring, slot);
        const int pieces = min(columns, s.length - column) / kStep * (Weights::kRecordBytes / 16);  // of a row
        const std::byte* records_from = scales + static_cast<int64_t>(column / kStep) * Weights::kRecordBytes;
        for (int i = thread; i < there * pieces; i += kFetchingThreads) {
          const int r = i / pieces, piece = i - r * pieces;
          const int row_of_piece = s.gated ? first + r / 2 + r % 2 * s.features : 2 * first + r;
          copy_async(records + static_cast<uint32_t>(r * steps * Weights::kRecordBytes + 16 * piece),
                     records_from + row_of_piece * scales_of_row + 16 * piece, true);
        }
        queue.end();
      }
    });
  }
}

// As fetch_weights. The head has elements.
template <class Weights, class T, class Handover>
__device__ __forceinline__ void fetch_coded_weights(const TokenCall& call, const TokenLayer* layers,
                                                    const WeightRing& ring) {
  PairShare share;
  ChunkQueue<Handover> queue(ring, call.dawdle);
  const int products = kProductsOfLayer * call.layers;
#pragma unroll 1
  for (int product = 0; product < products; ++product) {
    const int kind = product % kProductsOfLayer;
    fetch_coded<Weights, T>(call.shapes[hidden_from_compiler(kind)], layers[product / kProductsOfLayer].matrices[kind],
                            ring, share, queue);
  }
  fetch_product<T>(call.shapes[kHead], call.shapes[kHead], call.head, share, queue, CopyWeights{});
  queue.finish();
}

template <class Record>
__device__ __forceinline__ Record load_record(uint32_t address) {
  static_assert(sizeof(Record) == 4);
  uint32_t bits;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(bits) : "r"(address) : "memory");
  Record record;
  memcpy(&record, &bits, sizeof record);
  return record;
}

// Where a lane finds its columns of x in a step: piece i of 8 elements is at own ^ i * kApart.
template <class Codes>
struct PlaceOfX {
  static constexpr int kPieces = Codes::kStep / 32;
  static constexpr uint32_t kApart = 2 * token_swap(Codes::kRun);  // bytes

  FK_HOST_DEVICE static uint32_t own(uint32_t lane) {
    const uint32_t segment = lane / 4, quad = lane % 4;
    return 2 * (Codes::kStep * segment + Codes::kRun * quad) + segment % 2 * kApart;
  }
};

// Behind the steps of x there is for each segment of a step what products need of it, the same for all rows.
inline constexpr uint32_t kSumsOfStep = 8 * sizeof(float4);

// Places x for codes of 4 bits: as f16, whose ten bits hold two codes, so that most pairs of codes take one instruction
// and no shift. A pair from the higher four of eight bits is 16 times as large, so its elements of x are divided by 16.
// A power of two for each 256 elements keeps all of them in range: what becomes smaller than f16 can hold is less than
// 2^-38 of the largest. Codes are multiplied with 1024 added and without their zero point, which are subtracted from
// the product of a step. For each segment there is 1024 times the sum of the elements as they are multiplied, the sum
// of x, and the inverse of the power of two.
template <int kSegment>
struct HalvesPlace {
  static constexpr int kLanes = kSegment / 8;

  float4* sums;

  template <bool, class T>
  __device__ __forceinline__ void put(T* x, int at, const Pack8<T>& v) const {
    float largest = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) largest = fmaxf(largest, fabsf(to_float(v.at[i])));
    const uint32_t exponent = max(15u, __reduce_max_sync(kAllLanes, __float_as_uint(largest)) >> 23);
    const float factor = __uint_as_float((268 - exponent) << 23), inverse = __uint_as_float((exponent - 14) << 23);
    float sum = 0, all = 0;
    uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const bool high = i % 2 != 0;
      const float scale = high ? factor / 16 : factor;
      pairs[i] = pack_two<__half>(to_float(v.at[2 * i]) * scale, to_float(v.at[2 * i + 1]) * scale);
      const float2 both = __half22float2(as_pair<__half>(pairs[i]));
      sum += both.x + both.y;
      all = fmaf(high ? 16.0f : 1.0f, both.x + both.y, all);
    }
    *reinterpret_cast<uint4*>(x + at) = {pairs[0], pairs[1], pairs[2], pairs[3]};
#pragma unroll
    for (int apart = kLanes / 2; apart > 0; apart /= 2) {
      sum += __shfl_xor_sync(kAllLanes, sum, apart);
      all += __shfl_xor_sync(kAllLanes, all, apart);
    }
    if (threadIdx.x % kLanes == 0) sums[at / kSegment] = {PairOf<__half>::kBase * sum, all, inverse, 0};
  }
};

template <class Weights, class T>
__device__ __forceinline__ auto place_for_codes(T* x, int length) {
  const int padded = (length + Weights::kColumns - 1) / Weights::kColumns * Weights::kColumns;
  constexpr int kSegment = Weights::kColumns / kTokenSegments;
  if constexpr (Weights::kHalves)
    return HalvesPlace<kSegment>{reinterpret_cast<float4*>(x + padded)};
  else
    return PlainPlace{};
}

// sum += the products of a step of two rows with x, spread over the lanes; shared-memory addresses. For codes with one
// scale for a row.
template <class Weights, class T>
__device__ __forceinline__ void multiply_coded_step(float (&sum)[4], uint32_t first, uint32_t second, uint32_t x,
                                                    uint32_t own_x) {
  using Codes = typename Weights::Codes;
  using Place = PlaceOfX<Codes>;
  static_assert(Weights::kRecordBytes == 0);
  const uint32_t lane = threadIdx.x % 32;
  const uint4 w[2] = {load_shared(first + 16 * lane), load_shared(second + 16 * lane)};
#pragma unroll
  for (int i = 0; i < Place::kPieces; ++i) {
    const uint4 v = load_shared(x + (own_x ^ (i * Place::kApart)));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      auto pair = [&](int row, int which) {
        return Codes::template pair<T>(w[row], typename Codes::Record{}, 2 * i + half, which);
      };
      const uint32_t b0 = half == 0 ? v.x : v.z, b1 = half == 0 ? v.y : v.w;
      multiply_tile<T>(sum, pair(0, 0), pair(1, 0), pair(0, 1), pair(1, 1), b0, b1);
    }
  }
}

// The same for an x that HalvesPlace has placed.
template <class Weights>
__device__ __forceinline__ void multiply_step_of_halves(float (&sum)[4], uint32_t first, uint32_t second,
                                                        uint32_t first_records, uint32_t second_records, uint32_t x,
                                                        uint32_t own_x, uint32_t sums_of_x) {
  using Codes = typename Weights::Codes;
  using Place = PlaceOfX<Codes>;
  using Record = typename Codes::Record;
  const uint32_t lane = threadIdx.x % 32;
  const uint4 w[2] = {load_shared(first + 16 * lane), load_shared(second + 16 * lane)};
  const Record r[2] = {load_record<Record>(first_records + lane / 4 * sizeof(Record)),
                       load_record<Record>(second_records + lane / 4 * sizeof(Record))};
  float part[4] = {};
#pragma unroll
  for (int i = 0; i < Place::kPieces; ++i) {
    const uint4 v = load_shared(x + (own_x ^ (i * Place::kApart)));
    const uint32_t low[2] = {word_of(w[0], i), word_of(w[1], i)}, high[2] = {low[0] >> 8, low[1] >> 8};
    multiply_tile<__half>(part, Codes::in_half(low[0], 0), Codes::in_half(low[1], 0), Codes::in_half(low[0], 1),
                          Codes::in_half(low[1], 1), v.x, v.y);
    multiply_tile<__half>(part, Codes::in_half(high[0], 0), Codes::in_half(high[1], 0), Codes::in_half(high[0], 1),
                          Codes::in_half(high[1], 1), v.z, v.w);
  }
  // Of the two segments of x that this lane has products with.
  const uint4 a = load_shared(sums_of_x + lane % 4 * 32), b = load_shared(sums_of_x + lane % 4 * 32 + 16);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint4& of_x = i % 2 == 0 ? a : b;
    const float value = fmaf(-Codes::zero(r[i / 2], 0), __uint_as_float(of_x.y), part[i] - __uint_as_float(of_x.x));
    sum[i] = fmaf(Codes::scale(r[i / 2], 0) * __uint_as_float(of_x.z), value, sum[i]);
  }
}

// Zeros behind the staged x, up to a whole step of codes: staging fills steps of elements.
template <class Weights, class T>
__device__ __forceinline__ void fill_step_of_x(int length, T* x) {
  const int staged = (length + kStep - 1) / kStep * kStep,
            end = (length + Weights::kColumns - 1) / Weights::kColumns * Weights::kColumns;
  if (staged == end) return;
  const auto place = place_for_codes<Weights>(x, length);
  // Whole warps: a step of elements is one pack for each lane.
  for (int at = staged + 8 * static_cast<int>(threadIdx.x); at < end; at += 8 * kTokenThreads)
    place.template put<false>(x, at, Pack8<T>{});
  meet();
}

// The scales of the two rows of a pair.
__device__ __forceinline__ float2 row_scales(const float* scales, const ProductShape& s, int pair) {
  if (s.gated) return {__ldg(scales + pair), __ldg(scales + pair + s.features)};
  return {__ldg(scales + 2 * pair), __ldg(scales + min(2 * pair + 1, s.features - 1))};
}

// Prefetches into L2 the scales of this block's rows of the next product, so that its first sums do not wait for
// memory: the rows themselves are loaded long before.
template <class Weights>
__device__ __forceinline__ void fetch_row_scales(const DividedShape& shape, const void* matrix,
                                                 const PairShare& share) {
  if constexpr (Weights::kRecordBytes == 0) {
    const ProductShape s = Weights::in_elements(shape);
    const auto* scales = reinterpret_cast<const float*>(Weights::scales(matrix, s));
    const PairRange own = share.next(shape);
    const int first = s.gated ? own.begin : 2 * own.begin, end = s.gated ? own.end : min(2 * own.end, s.features);
    constexpr int kLine = 32;
    for (int at = first + kLine * static_cast<int>(threadIdx.x); at < end + kLine - 1; at += kLine * kTokenThreads) {
      const float* line = scales + min(at, end - 1);
      asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
      if (s.gated) asm volatile("prefetch.global.L2 [%0];" ::"l"(line + s.features));
    }
  }
}

// This block's rows of the next product, a coded one, over the staged x; finish(pair, sums) gets the results.
template <class Weights, class T, class Handover, class Finish>
__device__ __forceinline__ void multiply_coded(const DividedShape& shape, const void* matrix, const WeightRing& ring,
                                               RingPlace& place, PairShare& share, Handover& handover, T* x,
                                               const Finish& finish) {
  const ProductShape s = Weights::in_elements(shape);
  const int warp = static_cast<int>(threadIdx.x / 32);
  fill_step_of_x<Weights>(shape.length, x);
  const auto x_start = static_cast<uint32_t>(__cvta_generic_to_shared(x));
  const uint32_t own_x = PlaceOfX<typename Weights::Codes>::own(threadIdx.x % 32);
  const int steps_of_row = s.length / kStep;
  const uint32_t sums_of_x = x_start + static_cast<uint32_t>(steps_of_row * 2 * Weights::kColumns);
  share.for_rounds(shape, [&](int first, int count, int columns) {
    const uint32_t row_bytes = static_cast<uint32_t>(columns) * 2,
                   record_bytes = row_bytes / kTokenStepBytes * Weights::kRecordBytes;
    float2 scales{1, 1};
    if constexpr (Weights::kRecordBytes == 0)
      if (warp < count)
        scales = row_scales(reinterpret_cast<const float*>(Weights::scales(matrix, s)), s, first + warp);
    uint32_t x_address = x_start, x_sums = sums_of_x;
    float sum[4] = {};
    for (int column = 0; column < s.length; column += columns) {
      wait_phase(ring.full(place.slot), place.parity);
      handover.dawdle();
      if (warp < count) {
        const uint32_t slot = ring.slot(place.slot);
        uint32_t rows = slot + 2 * warp * row_bytes, records = 0;
        if constexpr (Weights::kRecordBytes > 0)
          records = records_of_slot<Weights>(ring, slot) + 2 * warp * record_bytes;
        const uint32_t end = rows + static_cast<uint32_t>(min(columns, s.length - column)) * 2;
#pragma unroll 1
        for (; rows < end; rows += kTokenStepBytes) {
          if constexpr (Weights::kHalves)
            multiply_step_of_halves<Weights>(sum, rows, rows + row_bytes, records, records + record_bytes, x_address,
                                             own_x, x_sums);
          else
            multiply_coded_step<Weights, T>(sum, rows, rows + row_bytes, x_address, own_x);
          x_sums += kSumsOfStep;
          x_address += 2 * Weights::kColumns;
          records += Weights::kRecordBytes;
        }
      }
      handover.dawdle();
      hand_over<Handover>(ring.empty(place.slot));
      place.next(ring.count);
    }
    if (warp < count) {
      const float2 value = gather(sum);
      finish(first + warp, float2{value.x * scales.x, value.y * scales.y});
    }
  });
}

}  // namespace fk::cuda
