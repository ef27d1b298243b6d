// Aarch64 loops over memory: pairs of 16-byte loads and stores, plain and non-temporal.
#include <arm_neon.h>

#include "measure/stream_kernels.h"

namespace fk {
namespace {

void read_pairs(const std::byte* data, size_t size_bytes) {
  for (const std::byte* at = data; at < data + size_bytes; at += 256)
    asm volatile(
        "ldp q0, q1, [%0]\n\tldp q2, q3, [%0, #32]\n\tldp q4, q5, [%0, #64]\n\tldp q6, q7, [%0, #96]\n\t"
        "ldp q0, q1, [%0, #128]\n\tldp q2, q3, [%0, #160]\n\tldp q4, q5, [%0, #192]\n\tldp q6, q7, [%0, #224]"
        :
        : "r"(at)
        : "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7");
}

void write_pairs(std::byte* data, size_t size_bytes) {
  const uint8x16_t value = vdupq_n_u8(1);
  for (std::byte* at = data; at < data + size_bytes; at += 128)
    asm volatile(
        "stp %q1, %q1, [%0]\n\tstp %q1, %q1, [%0, #32]\n\t"
        "stp %q1, %q1, [%0, #64]\n\tstp %q1, %q1, [%0, #96]"
        :
        : "r"(at), "w"(value)
        : "memory");
}

void write_past_caches(std::byte* data, size_t size_bytes) {
  const uint8x16_t value = vdupq_n_u8(1);
  for (std::byte* at = data; at < data + size_bytes; at += 128)
    asm volatile(
        "stnp %q1, %q1, [%0]\n\tstnp %q1, %q1, [%0, #32]\n\t"
        "stnp %q1, %q1, [%0, #64]\n\tstnp %q1, %q1, [%0, #96]"
        :
        : "r"(at), "w"(value)
        : "memory");
}

}  // namespace

std::vector<ReadKernel> stream_read_kernels() { return {{"ldp q", read_pairs}}; }

std::vector<WriteKernel> stream_write_kernels() { return {{"stp q", write_pairs}, {"stnp q", write_past_caches}}; }

}  // namespace fk
