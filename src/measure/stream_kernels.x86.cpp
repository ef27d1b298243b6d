// x86-64 loops over memory: the widest loads and stores, non-temporal stores, and the string instruction, which can
// write whole lines without reading them first.
#include <immintrin.h>

#include "core/cpu_features.h"
#include "measure/stream_kernels.h"

namespace fk {
namespace {

__attribute__((target("avx512f"))) void read_512(const std::byte* data, size_t size_bytes) {
  for (const std::byte* at = data; at < data + size_bytes; at += 256) {
    __m512i a = _mm512_load_si512(at), b = _mm512_load_si512(at + 64);
    __m512i c = _mm512_load_si512(at + 128), d = _mm512_load_si512(at + 192);
    asm volatile("" : : "v"(a), "v"(b), "v"(c), "v"(d));
  }
}

__attribute__((target("avx2"))) void read_256(const std::byte* data, size_t size_bytes) {
  for (const std::byte* at = data; at < data + size_bytes; at += 128) {
    const auto* line = reinterpret_cast<const __m256i*>(at);
    __m256i a = _mm256_load_si256(line), b = _mm256_load_si256(line + 1);
    __m256i c = _mm256_load_si256(line + 2), d = _mm256_load_si256(line + 3);
    asm volatile("" : : "x"(a), "x"(b), "x"(c), "x"(d));
  }
}

void read_128(const std::byte* data, size_t size_bytes) {
  for (const std::byte* at = data; at < data + size_bytes; at += 64) {
    const auto* line = reinterpret_cast<const __m128i*>(at);
    __m128i a = _mm_load_si128(line), b = _mm_load_si128(line + 1);
    __m128i c = _mm_load_si128(line + 2), d = _mm_load_si128(line + 3);
    asm volatile("" : : "x"(a), "x"(b), "x"(c), "x"(d));
  }
}

__attribute__((target("avx512f"))) void write_512(std::byte* data, size_t size_bytes) {
  const __m512i value = _mm512_set1_epi8(1);
  for (std::byte* at = data; at < data + size_bytes; at += 128) {
    _mm512_store_si512(at, value);
    _mm512_store_si512(at + 64, value);
    asm volatile("" : : : "memory");  // otherwise the compiler may call memset
  }
}

__attribute__((target("avx2"))) void write_256(std::byte* data, size_t size_bytes) {
  const __m256i value = _mm256_set1_epi8(1);
  for (std::byte* at = data; at < data + size_bytes; at += 64) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(at), value);
    _mm256_store_si256(reinterpret_cast<__m256i*>(at + 32), value);
    asm volatile("" : : : "memory");
  }
}

void write_128(std::byte* data, size_t size_bytes) {
  const __m128i value = _mm_set1_epi8(1);
  for (std::byte* at = data; at < data + size_bytes; at += 32) {
    _mm_store_si128(reinterpret_cast<__m128i*>(at), value);
    _mm_store_si128(reinterpret_cast<__m128i*>(at + 16), value);
    asm volatile("" : : : "memory");
  }
}

// Writes a whole line at once, which fills one write-combining buffer, whatever the width of the stores.
void write_past_caches(std::byte* data, size_t size_bytes) {
  const __m128i value = _mm_set1_epi8(1);
  for (std::byte* at = data; at < data + size_bytes; at += 16) _mm_stream_si128(reinterpret_cast<__m128i*>(at), value);
  _mm_sfence();
}

void write_string(std::byte* data, size_t size_bytes) {
  asm volatile("rep stosb" : "+D"(data), "+c"(size_bytes) : "a"(1) : "memory");
}

}  // namespace

std::vector<ReadKernel> stream_read_kernels() {
  const CpuFeatures& f = cpu_features();
  if (f.avx512) return {{"64-byte loads", read_512}, {"32-byte loads", read_256}};
  if (f.avx2) return {{"32-byte loads", read_256}};
  return {{"16-byte loads", read_128}};
}

std::vector<WriteKernel> stream_write_kernels() {
  const CpuFeatures& f = cpu_features();
  std::vector<WriteKernel> found{{"movntdq", write_past_caches}, {"rep stosb", write_string}};
  if (f.avx512) found.push_back({"64-byte stores", write_512});
  if (f.avx2) found.push_back({"32-byte stores", write_256});
  if (!f.avx2) found.push_back({"16-byte stores", write_128});
  return found;
}

}  // namespace fk
