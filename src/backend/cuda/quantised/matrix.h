// QuantisedMatrix: a matrix in a weight format on the device, and what products need of it. A format is one .cu file in
// this folder, which enters itself here before main().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "backend/cuda/quantised/streamed_call.h"
#include "core/tensor.h"

namespace fk::cuda {

class QuantisedMatrix {
 public:
  QuantisedMatrix(int64_t rows, int64_t columns) : rows_(rows), columns_(columns) {}
  virtual ~QuantisedMatrix() = default;

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

  // Rows first, first + 1, ... as the rows of `to` [n, columns], bf16, f16 or f32, dense.
  virtual void dequantise(int64_t first, const View& to, void* stream) const = 0;

  // Row ids[t], scaled, as row t of `to` [n, columns]; rows of zeros for ids that the matrix does not have.
  struct Lookup {
    const int64_t* ids = nullptr;
    int64_t id_stride = 1;
    float scale = 1;
  };
  virtual void look_up(const Lookup& rows, const View& to, void* stream) const = 0;

  // The streaming product for this matrix, or null and the reason.
  virtual const CodeStream* stream() const = 0;
  virtual std::string_view no_stream() const = 0;
  // The matrix as that product takes it. The first call may pack it and wait until that is done; it must not be
  // recorded in a graph.
  virtual StreamedMatrix streamed(void* stream) = 0;

  // FP8 codes as they are stored, with a scale for each row: what tensor cores multiply. The first call must not be
  // recorded in a graph.
  struct Fp8Operand {
    const void* codes = nullptr;
    const float* row_scales = nullptr;
  };
  virtual bool has_fp8_operand() const { return false; }
  virtual Fp8Operand fp8_operand(void*) { return {}; }

  // Writes the matrix as the kernel for a whole token takes it; only in formats that token_codes_of() knows.
  virtual void pack_for_token(void* codes, void* scales, void* stream) const = 0;

 private:
  int64_t rows_, columns_;
};

// The tensors of a matrix as its format lists them (ops/formats); of a block format the one tensor of its bytes.
struct StoredMatrix {
  std::span<const View> tensors;
  int64_t rows = 0, columns = 0;
  int64_t group = 0;  // columns with one scale, in formats whose name says how many
};

using MakeMatrix = std::unique_ptr<QuantisedMatrix> (*)(const StoredMatrix& stored);

// The matrix of a format; throws Error where there is no kernel for it.
std::unique_ptr<QuantisedMatrix> make_matrix(std::string_view format, const StoredMatrix& stored);

// The function for a format, by its full name or that of its kind ("int4_gptq" of "int4_gptq_g128"); null: no kernel.
MakeMatrix find_matrix_format(std::string_view format);

struct RegisterMatrixFormat {
  RegisterMatrixFormat(std::string_view name, MakeMatrix make);
};

}  // namespace fk::cuda
