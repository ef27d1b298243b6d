// WeightFormat: how a quantised matrix stores its elements. Each format is one file in this folder, which enters itself
// here before main(); no list names them.
//
// A quantised matrix [N, K] is a parameter of dtype u8 with shape [N, bytes of K elements] and the name of its format
// in ParamSpec. So views, guard pages, copies, mapped files and the candidates' interface handle it as the bytes it is,
// and its size is what is really read; only what looks at single elements asks the format. A dtype smaller than a byte
// would not do: elements of a block share a scale that lies between them, so a single element has no address.
//
// Formats whose scales are tensors of their own (FP8 with 128 x 128 blocks, GPTQ, AWQ, NVFP4) are ScaledFormats
// (ops/formats/scaled_format.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace fk {

struct WeightFormat {
  std::string_view name;       // "q4_k"
  int64_t block_elements = 0;  // consecutive elements of a row that are stored together
  int64_t block_bytes = 0;
  int64_t scale_elements = 0;  // those that share a scale (and a minimum); divides block_elements
  bool has_minimums = false;
  int32_t gguf_type = -1;  // the number GGUF files have for it; negative: none

  // One block as integers: element i is codes[i] * scales[j] - minimums[j], j = i / scale_elements. `minimums` is
  // written only where the format has them.
  void (*unpack)(const std::byte* block, int8_t* codes, float* scales, float* minimums) = nullptr;
  // Rounds the values of one block. For dummy weights and tests: simple, not the search for the smallest error that
  // programs that write checkpoints do.
  void (*quantise)(const float* values, std::byte* block) = nullptr;

  int64_t row_bytes(int64_t elements) const { return elements / block_elements * block_bytes; }
  int64_t row_elements(int64_t bytes) const { return bytes / block_bytes * block_elements; }
};

inline constexpr int64_t kMaxBlockElements = 256;

std::vector<const WeightFormat*> weight_formats();              // by name
const WeightFormat* find_weight_format(std::string_view name);  // nullptr where unknown
const WeightFormat& weight_format(std::string_view name);       // throws Error that lists the known ones
const WeightFormat* weight_format_of_gguf(int32_t type);        // nullptr where none has that number

// Elements of whole blocks. Each product and difference is rounded to float, as in ggml, so that the values are the
// same to the bit.
void dequantise(const WeightFormat& format, const std::byte* blocks, int64_t elements, float* values);
void quantise(const WeightFormat& format, const float* values, int64_t elements, std::byte* blocks);

// Bytes of a matrix: in `format`, of either sort, or of elements of `dtype` where `format` is empty.
double matrix_bytes(std::string_view format, int64_t rows, int64_t columns, DType dtype);

// const RegisterWeightFormat kQ8_0({.name = "q8_0", ...});
struct RegisterWeightFormat {
  explicit RegisterWeightFormat(const WeightFormat& format);
};

// A half at any address, as float.
float load_half(const std::byte* address);
void store_half(std::byte* address, float value);

}  // namespace fk
