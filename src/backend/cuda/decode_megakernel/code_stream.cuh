// Streams quantised weights through the token kernel: as weight_stream.cuh, with rows packed as
// quantised/token_layout.h describes it. To the load warps a row of codes is a row of as many 16-bit elements as it has
// bytes for; only the records of its scales are loaded beside it. The computing warps turn codes into pairs of elements
// in registers: eight segments of a row are eight rows of the left operand, as there.
#pragma once

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

// Codes with a zero point are multiplied with a constant added to all of them, which costs one instruction less for a
// pair, and the sum of x, times what was added, is subtracted from the product of a step.
template <class Codes, class T>
inline constexpr bool kShiftedCodes = requires(typename Codes::Record r) {
  Codes::template shift<T>(r, 0);
};

// The sums of x over the segments of a step: eight floats, the same for all rows.
inline constexpr uint32_t kSumsOfStep = 8 * sizeof(float);

// Writes them for all steps, behind x. A product with rows of ones: the tensor core adds as it does with codes.
template <class Weights, class T>
__device__ __forceinline__ void sum_steps_of_x(int steps, uint32_t x, uint32_t own_x, uint32_t sums) {
  using Place = PlaceOfX<typename Weights::Codes>;
  constexpr uint32_t kOnes = PairOf<T>::kOnes;
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll 1
  for (int step = static_cast<int>(threadIdx.x / 32); step < steps; step += kTokenWarps) {
    const uint32_t here = x + static_cast<uint32_t>(step * 2 * Weights::kColumns);
    float inputs[4] = {};
#pragma unroll
    for (int i = 0; i < Place::kPieces; ++i) {
      const uint4 v = load_shared(here + (own_x ^ (i * Place::kApart)));
      multiply_tile<T>(inputs, kOnes, kOnes, kOnes, kOnes, v.x, v.y);
      multiply_tile<T>(inputs, kOnes, kOnes, kOnes, kOnes, v.z, v.w);
    }
    if (lane < 4)
      asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(sums + step * kSumsOfStep + 8 * lane), "f"(inputs[0]),
                   "f"(inputs[1])
                   : "memory");
  }
  meet();
}

__device__ __forceinline__ float2 load_shared_pair(uint32_t address) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
  return v;
}

// sum += the products of a step of two rows with x, spread over the lanes; shared-memory addresses.
template <class Weights, class T>
__device__ __forceinline__ void multiply_coded_step(float (&sum)[4], uint32_t first, uint32_t second,
                                                    uint32_t first_records, uint32_t second_records, uint32_t x,
                                                    uint32_t own_x, uint32_t sums_of_x) {
  using Codes = typename Weights::Codes;
  using Place = PlaceOfX<Codes>;
  using Record = typename Codes::Record;
  const uint32_t lane = threadIdx.x % 32;
  const uint4 w[2] = {load_shared(first + 16 * lane), load_shared(second + 16 * lane)};
  Record r[2] = {};
  if constexpr (Weights::kRecordBytes > 0) {
    r[0] = load_record<Record>(first_records + lane / 4 * sizeof(Record));
    r[1] = load_record<Record>(second_records + lane / 4 * sizeof(Record));
  }
  constexpr bool kDirect = Weights::kRecordBytes == 0, kShifted = kShiftedCodes<Codes, T>;
  float2 inputs{};
  if constexpr (kShifted) inputs = load_shared_pair(sums_of_x + lane % 4 * 8);
  float part[4] = {};
#pragma unroll
  for (int i = 0; i < Place::kPieces; ++i) {
    const uint4 v = load_shared(x + (own_x ^ (i * Place::kApart)));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      auto pair = [&](int row, int which) {
        if constexpr (kShifted)
          return Codes::template shifted_pair<T>(w[row], 2 * i + half, which);
        else
          return Codes::template pair<T>(w[row], r[row], 2 * i + half, which);
      };
      const uint32_t b0 = half == 0 ? v.x : v.z, b1 = half == 0 ? v.y : v.w;
      multiply_tile<T>(kDirect ? sum : part, pair(0, 0), pair(1, 0), pair(0, 1), pair(1, 1), b0, b1);
    }
  }
  if constexpr (!kDirect) {
    static_assert(Codes::kScales == 1);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (kShifted)
        part[i] = fmaf(-Codes::template shift<T>(r[i / 2], 0), i % 2 == 0 ? inputs.x : inputs.y, part[i]);
      sum[i] = fmaf(Codes::scale(r[i / 2], 0), part[i], sum[i]);
    }
  }
}

// Zeros behind the staged x, up to a whole step of codes: staging fills steps of elements.
template <class Weights, class T>
__device__ __forceinline__ void fill_step_of_x(int length, T* x) {
  const int staged = (length + kStep - 1) / kStep * kStep,
            end = (length + Weights::kColumns - 1) / Weights::kColumns * Weights::kColumns;
  if (staged == end) return;
  for (int at = staged + static_cast<int>(threadIdx.x); at < end; at += kTokenThreads) x[at] = from_float<T>(0.0f);
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
  if constexpr (kShiftedCodes<typename Weights::Codes, T>)
    sum_steps_of_x<Weights, T>(steps_of_row, x_start, own_x, sums_of_x);
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
          multiply_coded_step<Weights, T>(sum, rows, rows + row_bytes, records, records + record_bytes, x_address,
                                          own_x, x_sums);
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
