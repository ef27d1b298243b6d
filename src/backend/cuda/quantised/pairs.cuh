// Codes of quantised weights as pairs of bf16 or f16, the operands of tensor cores, without integer conversions: bits
// are placed where they are the digits of a number of known size.
//
// All results are exact. Functions compile for the host too, so that a test needs no device.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

#define FK_HOST_DEVICE __host__ __device__ __forceinline__

namespace fk::cuda {

template <class T>
struct PairOf;
template <>
struct PairOf<__nv_bfloat16> {
  using type = __nv_bfloat162;
  static constexpr uint32_t kIntegers = 0x4300'4300;  // 128: the integers up to 255 differ in the last 7 bits
  static constexpr float kBase = 128;
  static constexpr uint32_t kOnes = 0x3f80'3f80;       // 1
  static constexpr uint32_t kE4M3Scale = 0x7b80'7b80;  // 2^120, the difference of the exponents' offsets
  static constexpr uint32_t kE2M1Scale = 0x7e80'7e80;  // 2^126
};
template <>
struct PairOf<__half> {
  using type = __half2;
  static constexpr uint32_t kIntegers = 0x6400'6400;  // 1024: the integers up to 2047 differ in the last 10 bits
  static constexpr float kBase = 1024;
  static constexpr uint32_t kOnes = 0x3c00'3c00;
  static constexpr uint32_t kE4M3Scale = 0x5c00'5c00;  // 2^8
  static constexpr uint32_t kE2M1Scale = 0x7400'7400;  // 2^14
};

FK_HOST_DEVICE uint32_t select_bytes(uint32_t a, uint32_t b, uint32_t selector) {
#ifdef __CUDA_ARCH__
  return __byte_perm(a, b, selector);
#else
  const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<uint32_t>(both >> (8 * (selector >> (4 * i) & 7)) & 0xff) << (8 * i);
  return result;
#endif
}

template <class T>
FK_HOST_DEVICE typename PairOf<T>::type as_pair(uint32_t bits) {
  typename PairOf<T>::type pair;
  memcpy(static_cast<void*>(&pair), &bits, sizeof pair);
  return pair;
}
template <class T>
FK_HOST_DEVICE uint32_t subtract_pairs(uint32_t a, uint32_t b) {
  const auto pair = __hsub2(as_pair<T>(a), as_pair<T>(b));
  uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}
template <class T>
FK_HOST_DEVICE uint32_t multiply_pairs(uint32_t a, uint32_t b) {
  const auto pair = __hmul2(as_pair<T>(a), as_pair<T>(b));
  uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

// Bytes 2 half and 2 half + 1 of a word, signed.
template <class T>
FK_HOST_DEVICE uint32_t int8_pair(uint32_t word, int half) {
  constexpr uint32_t kBase = PairOf<T>::kIntegers;
  if constexpr (sizeof(T) == 2 && PairOf<T>::kIntegers == 0x6400'6400) {
    // 1024 + 128 + code, in 10 bits.
    const uint32_t shifted = select_bytes(word ^ 0x8080'8080, 0x6464'6464, half == 0 ? 0x4140 : 0x4342);
    return subtract_pairs<T>(shifted, kBase | 0x0080'0080);
  } else {
    // 7 bits are too few for 256 values: the lower 7 bits minus the sign bit's 128, both with 128 added.
    const uint32_t bytes = select_bytes(word, 0, half == 0 ? 0x4140 : 0x4342);
    return subtract_pairs<T>(kBase | (bytes & 0x007f'007f), kBase | (bytes & 0x0080'0080));
  }
}

// The same as FP8 e4m3. NaN codes become 480.
template <class T>
FK_HOST_DEVICE uint32_t e4m3_pair(uint32_t word, int half) {
  const uint32_t high = select_bytes(word, 0, half == 0 ? 0x1404 : 0x3424);
  constexpr bool kHalf = PairOf<T>::kIntegers == 0x6400'6400;
  const uint32_t size = kHalf ? high >> 1 & 0x3f80'3f80 : high >> 4 & 0x07f0'07f0;
  return multiply_pairs<T>((high & 0x8000'8000) | size, PairOf<T>::kE4M3Scale);
}

// Half bytes of a word: the pairs are (0, 4), (1, 5), (2, 6), (3, 7). `zero`: what is subtracted, in both halves.
template <class T>
FK_HOST_DEVICE uint32_t uint4_zero(uint32_t zero) {
  return PairOf<T>::kIntegers + zero * 0x0001'0001u;
}
// With PairOf<T>::kIntegers added, which the caller subtracts from a sum.
template <class T>
FK_HOST_DEVICE uint32_t uint4_pair_and_base(uint32_t word, int pair) {
  const uint32_t shifted = word >> (4 * pair);
#ifdef __CUDA_ARCH__
  uint32_t bits;  // (shifted & mask) | base: as one instruction, which the compiler does not find
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(bits) : "r"(shifted), "r"(0x000f'000f), "r"(PairOf<T>::kIntegers));
  return bits;
#else
  return (shifted & 0x000f'000f) | PairOf<T>::kIntegers;
#endif
}
template <class T>
FK_HOST_DEVICE uint32_t uint4_pair(uint32_t word, int pair, uint32_t zero) {
  return subtract_pairs<T>(uint4_pair_and_base<T>(word, pair), zero);
}

// The same as floats of 4 bits, e2m1.
template <class T>
FK_HOST_DEVICE uint32_t e2m1_pair(uint32_t word, int pair) {
  const uint32_t high = word << (12 - 4 * pair);
  constexpr bool kHalf = PairOf<T>::kIntegers == 0x6400'6400;
  const uint32_t size = kHalf ? high >> 3 & 0x0e00'0e00 : high >> 6 & 0x01c0'01c0;
  return multiply_pairs<T>((high & 0x8000'8000) | size, PairOf<T>::kE2M1Scale);
}

FK_HOST_DEVICE float e4m3_value(uint8_t code) {
  const uint32_t bits = static_cast<uint32_t>(code & 0x80) << 24 | static_cast<uint32_t>(code & 0x7f) << 20;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value * 0x1p120f;
}

FK_HOST_DEVICE float half_value(uint32_t bits) {
  const auto half = static_cast<uint16_t>(bits);
  __half value;
  memcpy(static_cast<void*>(&value), &half, sizeof value);
  return __half2float(value);
}

FK_HOST_DEVICE float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
FK_HOST_DEVICE uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace fk::cuda
