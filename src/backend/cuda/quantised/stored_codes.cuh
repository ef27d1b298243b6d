// How the streaming product (stream_codes.cuh) finds the codes and scales of a matrix: as the checkpoint stores them,
// or packed into an order of our own.
//
// The product works on steps of kStep columns of eight rows, an octet. In a step each of 32 threads has 16 bytes of
// codes, of row lane / 4, and multiplies them in slices of 16 columns, four of each of the four threads of a row. A
// thread's columns come in runs of kRun adjacent ones; a run is short enough that the slices it takes part in lie in
// one group of the format. For each row and step there is a Record with the scales of its groups.
#pragma once

#include <cstdint>

#include "backend/cuda/quantised/pairs.cuh"
#include "backend/cuda/quantised/streamed_call.h"
#include "backend/cuda/quantised/token_layout.h"

namespace fk::cuda {

// The first of the columns that a thread multiplies in a slice, counted from the step's.
template <int kRun>
FK_HOST_DEVICE constexpr int slice_column(int slice, int quad) {
  constexpr int kSlices = kRun / 4;  // of a run
  return 4 * kRun * (slice / kSlices) + kRun * quad + 4 * (slice % kSlices);
}

FK_HOST_DEVICE uint32_t word_of(const uint4& codes, int i) {
  return i == 0 ? codes.x : i == 1 ? codes.y : i == 2 ? codes.z : codes.w;
}
FK_HOST_DEVICE uint32_t byte_of(uint32_t word, int i) { return word >> (8 * i) & 0xff; }

// Read once, past the L1.
__device__ __forceinline__ uint4 load_once(const void* address) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(address));
  return v;
}

// Bytes [rows, length] as the checkpoint has them, each row on 16 bytes, with one f32 scale for all of a step.
struct BytesAsStored {
  static constexpr int kStep = 64, kRun = 16, kScales = 1;
  static constexpr bool kMinimums = false, kPacked = false;
  static constexpr TokenCodes kToken = TokenCodes::kNone;
  using Record = float;

  __device__ static uint4 load_codes(const StreamedMatrix& m, int length, int octet, int lane, int step) {
    const int row = min(8 * octet + lane / 4, m.rows - 1), column = kStep * step + kRun * (lane % 4);
    if (column >= length) return {0, 0, 0, 0};
    return load_once(static_cast<const uint8_t*>(m.codes) + static_cast<int64_t>(row) * length + column);
  }
  __device__ static Record load_record(const StreamedMatrix& m, int octet, int row_of_octet, int step) {
    const int row = min(8 * octet + row_of_octet, m.rows - 1);
    return __ldg(static_cast<const float*>(m.scales) + static_cast<int64_t>(row >> m.row_shift) * m.row_stride +
                 (step >> m.step_shift));
  }
  FK_HOST_DEVICE static float scale(Record record, int) { return record; }
  FK_HOST_DEVICE static void place(uint32_t (&words)[4], int slice, int e, uint32_t code) {
    words[slice] |= code << (8 * e);
  }
};

// Packed by pack_codes.cuh: the 512 bytes of an octet and step lie together, and so do its eight records.
template <int kBits, class Record>
struct PackedCodes {
  static constexpr int kStep = 16 * 8 / kBits * 4;
  static constexpr bool kMinimums = false, kPacked = true;
  static constexpr TokenCodes kToken = TokenCodes::kNone;

  __device__ static uint4 load_codes(const StreamedMatrix& m, int, int octet, int lane, int step) {
    return load_once(static_cast<const uint4*>(m.codes) + (static_cast<int64_t>(octet) * m.steps + step) * 32 + lane);
  }
  __device__ static Record load_record(const StreamedMatrix& m, int octet, int row_of_octet, int step) {
    return static_cast<const Record*>(m.scales)[(static_cast<int64_t>(octet) * m.steps + step) * 8 + row_of_octet];
  }
  // Puts element `e` of a slice into a thread's words.
  FK_HOST_DEVICE static void place(uint32_t (&words)[4], int slice, int e, uint32_t code) {
    if constexpr (kBits == 8) {
      words[slice] |= code << (8 * e);
    } else {
      const int in_word = 4 * (slice % 2) + e;
      words[slice / 2] |= code << (4 * (in_word / 2 + 4 * (in_word % 2)));
    }
  }
};

struct Fp8Codes : BytesAsStored {
  static constexpr TokenCodes kToken = TokenCodes::kFp8;  // where a row has one scale
  template <class T>
  FK_HOST_DEVICE static uint32_t pair(const uint4& codes, const Record&, int slice, int half) {
    return e4m3_pair<T>(word_of(codes, slice), half);
  }
};

struct Int8Codes : BytesAsStored {
  template <class T>
  FK_HOST_DEVICE static uint32_t pair(const uint4& codes, const Record&, int slice, int half) {
    return int8_pair<T>(word_of(codes, slice), half);
  }
};

// Integers of 4 bits with a zero point, in groups of any multiple of 32 columns (four scales a step), or of 128 (one).
// The last five bits of a scale are the zero point: scales of checkpoints are f16 or bf16, whose f32 have zeros there.
template <int kScales_>
struct Int4Record {
  uint32_t at[kScales_];
};
template <int kScales_>
struct Int4Codes : PackedCodes<4, Int4Record<kScales_>> {
  static constexpr int kRun = 8, kScales = kScales_;
  static constexpr uint32_t kZeroBits = 31;
  static constexpr TokenCodes kToken = kScales_ == 1 ? TokenCodes::kInt4 : TokenCodes::kNone;
  using Record = Int4Record<kScales_>;

  FK_HOST_DEVICE static float scale(const Record& record, int group) {
    return float_of_bits(record.at[group] & ~kZeroBits);
  }
  template <class T>
  FK_HOST_DEVICE static uint32_t pair(const uint4& codes, const Record& record, int slice, int half) {
    const uint32_t zero = record.at[slice * kScales / 8] & kZeroBits;
    return uint4_pair<T>(word_of(codes, slice / 2), 2 * (slice % 2) + half, uint4_zero<T>(zero));
  }
  // Two codes of a word as f16, with 1024 added: the pairs (0, 4), or (1, 5) times 16.
  FK_HOST_DEVICE static uint32_t in_half(uint32_t word, int pair) {
    const uint32_t mask = pair == 0 ? 0x000f'000f : 0x00f0'00f0;
#ifdef __CUDA_ARCH__
    uint32_t bits;  // one instruction, as in uint4_pair_and_base
    asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(bits) : "r"(word), "r"(mask), "r"(PairOf<__half>::kIntegers));
    return bits;
#else
    return (word & mask) | PairOf<__half>::kIntegers;
#endif
  }
  FK_HOST_DEVICE static float zero(const Record& record, int group) {
    return static_cast<float>(record.at[group] & kZeroBits);
  }
};

// Q8_0 of GGUF: 32 columns have a half as their scale.
struct Q8_0Codes : PackedCodes<8, uint32_t> {
  static constexpr int kRun = 8, kScales = 2;
  using Record = uint32_t;

  FK_HOST_DEVICE static float scale(Record record, int group) { return half_value(record >> (16 * group)); }
  template <class T>
  FK_HOST_DEVICE static uint32_t pair(const uint4& codes, Record, int slice, int half) {
    return int8_pair<T>(word_of(codes, slice), half);
  }
};

// Q4_0: the same with 4 bits, 8 being zero.
struct Q4_0Codes : PackedCodes<4, uint2> {
  static constexpr int kRun = 8, kScales = 4;
  using Record = uint2;

  FK_HOST_DEVICE static float scale(const Record& record, int group) {
    return half_value((group < 2 ? record.x : record.y) >> (16 * (group % 2)));
  }
  template <class T>
  FK_HOST_DEVICE static uint32_t pair(const uint4& codes, const Record&, int slice, int half) {
    return uint4_pair<T>(word_of(codes, slice / 2), 2 * (slice % 2) + half, uint4_zero<T>(8));
  }
};

// Q4_K: groups of 32 with a scale and a minimum in steps of two units, halves that 256 columns share.
struct Q4_KRecord {
  uint32_t scales, minimums;  // four bytes each
  uint32_t units;             // of scales, of minimums
};
struct Q4_KCodes : PackedCodes<4, Q4_KRecord> {
  static constexpr int kRun = 8, kScales = 4;
  static constexpr bool kMinimums = true;
  using Record = Q4_KRecord;

  FK_HOST_DEVICE static float scale(const Record& record, int group) {
    return half_value(record.units) * static_cast<float>(byte_of(record.scales, group));
  }
  FK_HOST_DEVICE static float minimum(const Record& record, int group) {
    return half_value(record.units >> 16) * static_cast<float>(byte_of(record.minimums, group));
  }
  template <class T>
  FK_HOST_DEVICE static uint32_t pair(const uint4& codes, const Record&, int slice, int half) {
    return uint4_pair<T>(word_of(codes, slice / 2), 2 * (slice % 2) + half, uint4_zero<T>(0));
  }
};

// Q6_K, widened to 8 bits: groups of 16 with a signed byte as scale, in a unit that 256 columns share.
struct Q6_KCodes : PackedCodes<8, uint2> {
  static constexpr int kRun = 4, kScales = 4;
  using Record = uint2;  // four scales, the unit

  FK_HOST_DEVICE static float scale(const Record& record, int group) {
    return half_value(record.y) * static_cast<float>(static_cast<int8_t>(byte_of(record.x, group)));
  }
  template <class T>
  FK_HOST_DEVICE static uint32_t pair(const uint4& codes, const Record&, int slice, int half) {
    return int8_pair<T>(word_of(codes, slice), half);
  }
};

// MXFP4: 32 columns have a power of two as their scale.
FK_HOST_DEVICE float power_of_two(uint32_t exponent_plus_127) {
  return float_of_bits(exponent_plus_127 == 0 ? 0x0040'0000u : exponent_plus_127 << 23);
}
struct Mxfp4Codes : PackedCodes<4, uint32_t> {
  static constexpr int kRun = 8, kScales = 4;
  using Record = uint32_t;

  FK_HOST_DEVICE static float scale(Record record, int group) { return power_of_two(byte_of(record, group)); }
  template <class T>
  FK_HOST_DEVICE static uint32_t pair(const uint4& codes, Record, int slice, int half) {
    return e2m1_pair<T>(word_of(codes, slice / 2), 2 * (slice % 2) + half);
  }
};

// NVFP4: 16 columns have an e4m3 as their scale, and the matrix a divisor of all of them.
struct Nvfp4Codes : PackedCodes<4, uint2> {
  static constexpr int kRun = 4, kScales = 8;
  using Record = uint2;

  FK_HOST_DEVICE static float scale(const Record& record, int group) {
    return e4m3_value(static_cast<uint8_t>(byte_of(group < 4 ? record.x : record.y, group % 4)));
  }
  template <class T>
  FK_HOST_DEVICE static uint32_t pair(const uint4& codes, const Record&, int slice, int half) {
    return e2m1_pair<T>(word_of(codes, slice / 2), 2 * (slice % 2) + half);
  }
};

}  // namespace fk::cuda
