// MatrixOf: the matrix of a format from its reader and its codes. Packing and writing out are simple kernels: the one
// runs once, and the other before a product of many rows.
#pragma once

#include <memory>
#include <utility>

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/quantised/matrix.h"
#include "backend/cuda/quantised/matrix_readers.cuh"
#include "backend/cuda/quantised/stream_codes.cuh"
#include "backend/cuda/quantised/token_pack.cuh"
#include "core/check.h"
#include "core/memory.h"

namespace fk::cuda {

inline constexpr int kMatrixThreads = 256;

// The 16 bytes that one thread of the streaming product loads, and the record of its row.
template <class Codes, class Reader>
FK_HOST_DEVICE uint4 packed_words(const Reader& reader, int64_t rows, int64_t columns, int64_t octet, int64_t step,
                                  int lane) {
  const int64_t row = 8 * octet + lane / 4;
  uint32_t words[4] = {0, 0, 0, 0};
  if (row < rows) {
    for (int slice = 0; slice < Codes::kStep / 16; ++slice) {
      for (int e = 0; e < 4; ++e) {
        const int64_t column = Codes::kStep * step + slice_column<Codes::kRun>(slice, lane % 4) + e;
        if (column < columns) Codes::place(words, slice, e, reader.code(row, column));
      }
    }
  }
  return {words[0], words[1], words[2], words[3]};
}

template <class Codes, class Reader>
__global__ void __launch_bounds__(kMatrixThreads)
    pack_codes(const Reader reader, int64_t rows, int64_t columns, int64_t steps, int64_t octets, uint4* codes,
               typename Codes::Record* records) {
  using Record = typename Codes::Record;
  wait_for_previous();
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kMatrixThreads + threadIdx.x, tile = i / 32;
  const int lane = static_cast<int>(i % 32);
  const int64_t octet = tile / steps, step = tile % steps, row = 8 * octet + lane / 4;
  if (octet >= octets) return;
  codes[i] = packed_words<Codes>(reader, rows, columns, octet, step, lane);
  if (lane % 4 == 0)
    records[8 * tile + lane / 4] = row < rows ? reader.template record<Record>(row, Codes::kStep * step) : Record{};
}

template <class T, class Reader>
__global__ void __launch_bounds__(kMatrixThreads)
    write_out(const Reader reader, int64_t first, int64_t rows, int64_t columns, T* to) {
  constexpr int kElements = 8;  // of a thread
  wait_for_previous();
  const int64_t pieces = (columns + kElements - 1) / kElements;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kMatrixThreads + threadIdx.x;
  const int64_t row = i / pieces, column = i % pieces * kElements;
  if (row >= rows) return;
  Pack<T, kElements> values;
  float exact[kElements];
  bool found = false;
  if constexpr (requires { reader.eight_values(first, column, exact); }) {
    found = columns % kElements == 0;
    if (found) reader.eight_values(first + row, column, exact);
  }
  if (!found)
#pragma unroll
    for (int e = 0; e < kElements; ++e) exact[e] = column + e < columns ? reader.value(first + row, column + e) : 0.0f;
#pragma unroll
  for (int e = 0; e < kElements; ++e) values.at[e] = from_float<T>(exact[e]);
  T* at = to + row * columns + column;
  // Scratch memory starts on more than 32 bytes.
  if (columns % kElements == 0) {
    *reinterpret_cast<Pack<T, kElements>*>(at) = values;
  } else {
#pragma unroll
    for (int e = 0; e < kElements; ++e)
      if (column + e < columns) at[e] = values.at[e];
  }
}

template <class T, class Reader>
__global__ void __launch_bounds__(kMatrixThreads)
    look_up_rows(const Reader reader, const QuantisedMatrix::Lookup rows, int64_t entries, int64_t columns, T* to,
                 int64_t to_stride, unsigned pieces) {
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x / pieces;
  const int64_t column = blockIdx.x % pieces * static_cast<int64_t>(kMatrixThreads) + threadIdx.x;
  if (column >= columns) return;
  const int64_t id = rows.ids[row * rows.id_stride];
  const float value = id >= 0 && id < entries ? reader.value(id, column) * rows.scale : 0.0f;
  to[row * to_stride + column] = from_float<T>(value);
}

template <class Reader>
__global__ void __launch_bounds__(kMatrixThreads) write_row_scales(const Reader reader, int64_t rows, float* scales) {
  wait_for_previous();
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kMatrixThreads + threadIdx.x;
  if (row < rows) scales[row] = reader.row_scale(row);
}

template <class Codes, class Reader>
class MatrixOf final : public QuantisedMatrix {
 public:
  // `no_stream`: why this matrix cannot be streamed, if so. `as_stored`: the matrix for codes that are not packed.
  MatrixOf(const StoredMatrix& stored, const Reader& reader, const CodeStream* stream, std::string_view no_stream,
           const StreamedMatrix& as_stored = {})
      : QuantisedMatrix(stored.rows, stored.columns),
        reader_(reader),
        stream_(no_stream.empty() ? stream : nullptr),
        no_stream_(no_stream),
        as_stored_(as_stored),
        device_(stored.tensors[0].device()) {
    as_stored_.rows = static_cast<int>(stored.rows);
    as_stored_.steps = static_cast<int>((stored.columns + Codes::kStep - 1) / Codes::kStep);
  }

  void dequantise(int64_t first, const View& to, void* stream) const override {
    FK_CHECK(to.contiguous() && to.size(1) == columns());
    with_float_type(to.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      launch("write_out", write_out<T, Reader>, blocks_for(to.size(0) * ((columns() + 7) / 8), kMatrixThreads),
             kMatrixThreads, 0, stream, reader_, first, to.size(0), columns(), static_cast<T*>(to.data()));
    });
  }

  void look_up(const Lookup& ids, const View& to, void* stream) const override {
    const unsigned pieces = blocks_for(columns(), kMatrixThreads);
    with_float_type(to.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      launch("look_up_rows", look_up_rows<T, Reader>, static_cast<unsigned>(to.size(0)) * pieces, kMatrixThreads, 0,
             stream, reader_, ids, rows(), columns(), static_cast<T*>(to.data()), to.stride(0), pieces);
    });
  }

  const CodeStream* stream() const override { return stream_; }
  std::string_view no_stream() const override { return no_stream_; }

  StreamedMatrix streamed(void* stream) override {
    FK_CHECK(stream_ != nullptr);
    if constexpr (Codes::kPacked) {
      if (as_stored_.codes == nullptr) pack(stream);
    }
    return as_stored_;
  }

  bool has_fp8_operand() const override {
    if constexpr (Codes::kToken == TokenCodes::kFp8) return reader_.has_row_scales();
    return false;
  }
  Fp8Operand fp8_operand(void* stream) override {
    FK_CHECK(has_fp8_operand());
    if constexpr (Codes::kToken == TokenCodes::kFp8) {
      if (records_.data() == nullptr) {
        records_ = Buffer(static_cast<size_t>(rows()) * sizeof(float), device_);
        launch("write_row_scales", write_row_scales<Reader>, blocks_for(rows(), kMatrixThreads), kMatrixThreads, 0,
               stream, reader_, rows(), reinterpret_cast<float*>(records_.data()));
      }
      return {reader_.codes, reinterpret_cast<const float*>(records_.data())};
    }
    return {};
  }

  void pack_for_token(void* codes, void* scales, void* stream) const override {
    if constexpr (Codes::kToken != TokenCodes::kNone)
      cuda::pack_for_token<Codes>(reader_, rows(), columns(), codes, scales, stream);
    else
      FK_CHECK(false, "the format has no such form");
  }

 private:
  void pack(void* stream) {
    using Record = typename Codes::Record;
    // A block of the product has two octets.
    const int64_t steps = as_stored_.steps, octets = (rows() + 15) / 16 * 2;
    codes_ = Buffer(static_cast<size_t>(octets * steps) * 512, device_);
    records_ = Buffer(static_cast<size_t>(octets * steps) * 8 * sizeof(Record), device_);
    launch("pack_codes", pack_codes<Codes, Reader>, blocks_for(octets * steps * 32, kMatrixThreads), kMatrixThreads, 0,
           stream, reader_, rows(), columns(), steps, octets, reinterpret_cast<uint4*>(codes_.data()),
           reinterpret_cast<Record*>(records_.data()));
    // The product reads its matrix before it waits for the kernel before it.
    check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "Packing a matrix");
    as_stored_.codes = codes_.data();
    as_stored_.scales = records_.data();
  }

  Reader reader_;
  const CodeStream* stream_;
  std::string_view no_stream_;
  StreamedMatrix as_stored_;
  Device device_;
  Buffer codes_, records_;
};

// The reason that holds for every format: indices are 32 bits, and a thread takes whole runs of columns.
inline std::string_view size_refusal(const StoredMatrix& stored, int run) {
  if (stored.rows > INT32_MAX / 2 || stored.columns > INT32_MAX / 2)
    return "the matrix is too large for 32-bit indices";
  if (stored.columns % run != 0) return "the number of columns does not divide into packs";
  return {};
}

}  // namespace fk::cuda
