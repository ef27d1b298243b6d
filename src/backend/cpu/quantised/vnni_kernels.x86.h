// The AVX-512 VNNI kernels of a weight format. Each format is one file of this folder, which enters itself here before
// main().
//
// Weights are packed once, when they are first used, into panels of sixteen rows in which the four-byte words of the
// rows alternate: VPDPBUSD then sums sixteen rows at once, without sums across a vector. A panel has as many bytes as
// its rows. One token is multiplied by four panels at a time: hardware prefetchers follow one stream per page, and a
// single stream does not use the full memory bandwidth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "backend/cpu/quantised/rounded_rows.h"
#include "core/dtype.h"

namespace fk {

inline constexpr int64_t kPanelRows = 16;

struct PackRowsTask {
  const std::byte* w;  // the first row
  int64_t w_stride;    // bytes
  int64_t rows;        // up to 16; the others become zero
  int64_t k;           // elements: whole blocks
  std::byte* panel;
};

// Some panels, one after the other, times rows token .. token + tokens - 1 of x.
struct MultiplyPanelsTask {
  const std::byte* panel;  // the first
  int64_t panels;
  const RoundedRows* x;
  int64_t token, tokens;
  float* sums;  // [tokens][sums_stride], of which 16 for each panel are written
  int64_t sums_stride;
};

inline constexpr int64_t kWidenedRow = 32, kWidenedStep = 1024;  // elements from one to the next

// Sixteen rows of elements first .. first + count - 1, whole groups of 32, as bf16 [count / 32][32 rows][32]: the upper
// or the lower half of a block of matmul_amx_bf16_of().
struct WidenTask {
  int64_t first, count;
  bf16* to;
  int64_t next_panel = 0;  // bytes from this panel to the one that is widened after it
};

struct VnniFormat {
  std::string_view name;
  void (*pack)(const PackRowsTask&) = nullptr;
  void (*multiply)(const MultiplyPanelsTask&) = nullptr;
  void (*widen)(const std::byte* panel, const WidenTask& task) = nullptr;  // needs avx512_bf16
};

const VnniFormat* find_vnni_format(std::string_view name);  // nullptr where there are no kernels for it

struct RegisterVnniFormat {
  explicit RegisterVnniFormat(const VnniFormat& format);
};

}  // namespace fk
