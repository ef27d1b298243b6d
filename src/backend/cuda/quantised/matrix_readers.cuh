// Single elements of quantised matrices as checkpoints store them, at any alignment: for packing, and for products that
// first write the matrix out.
//
// A reader has value(row, column). Readers of formats that are packed have code(row, column), the bits that the packed
// format has for an element, and record(row, column), the record of the step that begins there, or row_scale(row).
// Where neighbours are cheaper together there is eight_values().
#pragma once

#include "backend/cuda/quantised/stored_codes.cuh"

namespace fk::cuda {

FK_HOST_DEVICE uint32_t load_16(const uint8_t* at) { return at[0] | static_cast<uint32_t>(at[1]) << 8; }

FK_HOST_DEVICE float e2m1_value(uint32_t code) {
  const uint32_t size = code & 7;
  const float value = size < 2 ? 0.5f * static_cast<float>(size)
                               : static_cast<float>(2 + (size & 1)) * 0.5f * static_cast<float>(1 << ((size >> 1) - 1));
  return code & 8 ? -value : value;
}

struct Fp8Reader {
  const uint8_t* codes;
  const float* scales;
  int64_t columns;
  int row_shift, column_shift;
  int64_t row_stride;

  FK_HOST_DEVICE uint32_t code(int64_t row, int64_t column) const { return codes[row * columns + column]; }
  FK_HOST_DEVICE float row_scale(int64_t row) const { return scales[(row >> row_shift) * row_stride]; }
  bool has_row_scales() const { return column_shift >= 31; }
  FK_HOST_DEVICE float value(int64_t row, int64_t column) const {
    const uint8_t code = codes[row * columns + column];
    const float scale = scales[(row >> row_shift) * row_stride + (column >> column_shift)];
    return (code & 0x7f) == 0x7f ? float_of_bits(0x7fc0'0000) : e4m3_value(code) * scale;
  }
};

struct Int8Reader {
  const int8_t* codes;
  const float* scales;
  int64_t columns;

  FK_HOST_DEVICE float value(int64_t row, int64_t column) const {
    return static_cast<float>(codes[row * columns + column]) * scales[row];
  }
};

// The layouts of ops/formats/int4.cpp.
struct Int4Reader {
  const uint32_t *words, *zeros;  // no zeros: the zero point is 8
  const float* scales;
  int64_t rows, columns, group;
  bool by_rows;  // scales and zero points of a row are adjacent
  bool awq;
  int zero_offset;

  FK_HOST_DEVICE static int awq_place(int64_t row) {
    const int in_word = static_cast<int>(row % 8);
    return in_word / 2 + 4 * (in_word % 2);
  }
  FK_HOST_DEVICE uint32_t code(int64_t row, int64_t column) const {
    if (awq) return words[column * (rows / 8) + row / 8] >> (4 * awq_place(row)) & 15;
    const uint32_t word = by_rows ? words[row * (columns / 8) + column / 8] : words[column / 8 * rows + row];
    return word >> (4 * (column % 8)) & 15;
  }
  FK_HOST_DEVICE uint32_t zero(int64_t row, int64_t column) const {
    if (zeros == nullptr) return 8;
    const int64_t g = column / group, groups = columns / group;
    const uint32_t word = zeros[by_rows ? row / 8 * groups + g : g * (rows / 8) + row / 8];
    return (word >> (4 * (awq ? awq_place(row) : static_cast<int>(row % 8))) & 15) + zero_offset;
  }
  FK_HOST_DEVICE float scale(int64_t row, int64_t column) const {
    const int64_t g = column / group;
    return scales[by_rows ? row * (columns / group) + g : g * rows + row];
  }
  FK_HOST_DEVICE float value(int64_t row, int64_t column) const {
    return (static_cast<float>(code(row, column)) - static_cast<float>(zero(row, column))) * scale(row, column);
  }
  // Eight from a multiple of eight on: finding their group takes most of the time.
  FK_HOST_DEVICE void eight_values(int64_t row, int64_t column, float (&values)[8]) const {
    if (awq || group % 8 != 0) {
      for (int e = 0; e < 8; ++e) values[e] = value(row, column + e);
      return;
    }
    const uint32_t word = by_rows ? words[row * (columns / 8) + column / 8] : words[column / 8 * rows + row];
    const auto shift = static_cast<float>(zero(row, column));
    const float factor = scale(row, column);
    for (int e = 0; e < 8; ++e) values[e] = (static_cast<float>(word >> (4 * e) & 15) - shift) * factor;
  }
  template <class Record>
  FK_HOST_DEVICE Record record(int64_t row, int64_t column) const {
    constexpr int kScales = sizeof(Record) / 4;
    Record r{};
    for (int i = 0; i < kScales; ++i) {
      const int64_t at = column + 32 * i;
      if (at < columns) r.at[i] = (bits_of_float(scale(row, at)) & ~31u) | zero(row, at);
    }
    return r;
  }
};

struct TernaryReader {
  const uint8_t* bytes;
  const float* scale_of_matrix;
  int64_t rows, columns;
  bool inverse;

  FK_HOST_DEVICE uint32_t code(int64_t row, int64_t column) const {
    const int64_t byte_rows = rows / 4;
    return bytes[row % byte_rows * columns + column] >> (2 * (row / byte_rows)) & 3;
  }
  FK_HOST_DEVICE float scale() const { return inverse ? 1 / *scale_of_matrix : *scale_of_matrix; }
  FK_HOST_DEVICE float value(int64_t row, int64_t column) const {
    return (static_cast<float>(code(row, column)) - 1) * scale();
  }
  template <class Record>
  FK_HOST_DEVICE Record record(int64_t, int64_t) const {
    Record r{};
    r.at[0] = (bits_of_float(scale()) & ~31u) | 1;
    return r;
  }
};

struct Nvfp4Reader {
  const uint8_t *codes, *scales;
  const float* divisor;
  int64_t columns;

  FK_HOST_DEVICE uint32_t code(int64_t row, int64_t column) const {
    return codes[row * (columns / 2) + column / 2] >> (4 * (column % 2)) & 15;
  }
  FK_HOST_DEVICE float value(int64_t row, int64_t column) const {
    return e2m1_value(code(row, column)) * (e4m3_value(scales[row * (columns / 16) + column / 16]) / *divisor);
  }
  template <class Record>
  FK_HOST_DEVICE Record record(int64_t row, int64_t column) const {
    uint32_t words[2] = {0, 0};
    for (int i = 0; i < 8; ++i)
      if (column + 16 * i < columns)
        words[i / 4] |= static_cast<uint32_t>(scales[row * (columns / 16) + column / 16 + i]) << (8 * (i % 4));
    return {words[0], words[1]};
  }
};

// Blocks of GGUF files; the layouts are those of ops/formats.
struct BlockReader {
  const uint8_t* bytes;
  int64_t columns;

  template <int kElements, int kBytes>
  FK_HOST_DEVICE const uint8_t* block(int64_t row, int64_t column) const {
    return bytes + (row * (columns / kElements) + column / kElements) * kBytes;
  }
};

struct Q8_0Reader : BlockReader {
  FK_HOST_DEVICE uint32_t code(int64_t row, int64_t column) const {
    return block<32, 34>(row, column)[2 + column % 32];
  }
  FK_HOST_DEVICE float value(int64_t row, int64_t column) const {
    return half_value(load_16(block<32, 34>(row, column))) * static_cast<float>(static_cast<int8_t>(code(row, column)));
  }
  template <class Record>
  FK_HOST_DEVICE Record record(int64_t row, int64_t column) const {
    uint32_t r = load_16(block<32, 34>(row, column));
    if (column + 32 < columns) r |= load_16(block<32, 34>(row, column + 32)) << 16;
    return r;
  }
};

struct Q4_0Reader : BlockReader {
  FK_HOST_DEVICE uint32_t code(int64_t row, int64_t column) const {
    const int i = static_cast<int>(column % 32);
    return block<32, 18>(row, column)[2 + i % 16] >> (i < 16 ? 0 : 4) & 15;
  }
  FK_HOST_DEVICE float value(int64_t row, int64_t column) const {
    return half_value(load_16(block<32, 18>(row, column))) * (static_cast<float>(code(row, column)) - 8);
  }
  template <class Record>
  FK_HOST_DEVICE Record record(int64_t row, int64_t column) const {
    uint32_t words[2] = {0, 0};
    for (int i = 0; i < 4; ++i)
      if (column + 32 * i < columns) words[i / 2] |= load_16(block<32, 18>(row, column + 32 * i)) << (16 * (i % 2));
    return {words[0], words[1]};
  }
};

struct Q4_KReader : BlockReader {
  FK_HOST_DEVICE uint32_t code(int64_t row, int64_t column) const {
    const int i = static_cast<int>(column % 256), group = i / 32;
    return block<256, 144>(row, column)[16 + group / 2 * 32 + i % 32] >> (group % 2 == 0 ? 0 : 4) & 15;
  }
  FK_HOST_DEVICE static uint32_t scale_step(const uint8_t* bytes, int j) {
    return j < 4 ? bytes[j] & 63u : (bytes[j + 4] & 15u) | (bytes[j - 4] >> 6) << 4;
  }
  FK_HOST_DEVICE static uint32_t minimum_step(const uint8_t* bytes, int j) {
    return j < 4 ? bytes[j + 4] & 63u : static_cast<uint32_t>(bytes[j + 4] >> 4) | (bytes[j] >> 6) << 4;
  }
  FK_HOST_DEVICE float value(int64_t row, int64_t column) const {
    const uint8_t* b = block<256, 144>(row, column);
    const int group = static_cast<int>(column % 256) / 32;
    const float scale = half_value(load_16(b)) * static_cast<float>(scale_step(b + 4, group));
    const float minimum = half_value(load_16(b + 2)) * static_cast<float>(minimum_step(b + 4, group));
    return scale * static_cast<float>(code(row, column)) - minimum;
  }
  template <class Record>
  FK_HOST_DEVICE Record record(int64_t row, int64_t column) const {
    const uint8_t* b = block<256, 144>(row, column);
    const int first = static_cast<int>(column % 256) / 32;
    Record r{0, 0, load_16(b) | load_16(b + 2) << 16};
    for (int i = 0; i < 4; ++i) {
      r.scales |= scale_step(b + 4, first + i) << (8 * i);
      r.minimums |= minimum_step(b + 4, first + i) << (8 * i);
    }
    return r;
  }
};

struct Q6_KReader : BlockReader {
  FK_HOST_DEVICE int signed_code(int64_t row, int64_t column) const {
    const uint8_t* b = block<256, 210>(row, column);
    const int i = static_cast<int>(column % 256), in_half = i % 128;
    const int low = b[i / 128 * 64 + i % 64] >> (in_half < 64 ? 0 : 4) & 15;
    const int upper = b[128 + i / 128 * 32 + i % 32] >> (in_half / 32 * 2) & 3;
    return (low | upper << 4) - 32;
  }
  FK_HOST_DEVICE uint32_t code(int64_t row, int64_t column) const {
    return static_cast<uint8_t>(signed_code(row, column));
  }
  FK_HOST_DEVICE float value(int64_t row, int64_t column) const {
    const uint8_t* b = block<256, 210>(row, column);
    const float scale =
        half_value(load_16(b + 208)) * static_cast<float>(static_cast<int8_t>(b[192 + column % 256 / 16]));
    return scale * static_cast<float>(signed_code(row, column));
  }
  template <class Record>
  FK_HOST_DEVICE Record record(int64_t row, int64_t column) const {
    const uint8_t* b = block<256, 210>(row, column);
    const uint8_t* scales = b + 192 + column % 256 / 16;
    return {scales[0] | static_cast<uint32_t>(scales[1]) << 8 | static_cast<uint32_t>(scales[2]) << 16 |
                static_cast<uint32_t>(scales[3]) << 24,
            load_16(b + 208)};
  }
};

struct Mxfp4Reader : BlockReader {
  FK_HOST_DEVICE uint32_t code(int64_t row, int64_t column) const {
    const int i = static_cast<int>(column % 32);
    return block<32, 17>(row, column)[1 + i % 16] >> (i < 16 ? 0 : 4) & 15;
  }
  FK_HOST_DEVICE float value(int64_t row, int64_t column) const {
    return e2m1_value(code(row, column)) * power_of_two(block<32, 17>(row, column)[0]);
  }
  template <class Record>
  FK_HOST_DEVICE Record record(int64_t row, int64_t column) const {
    uint32_t r = 0;
    for (int i = 0; i < 4; ++i)
      if (column + 32 * i < columns) r |= static_cast<uint32_t>(block<32, 17>(row, column + 32 * i)[0]) << (8 * i);
    return r;
  }
};

}  // namespace fk::cuda
