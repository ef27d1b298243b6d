// ScaledFormat: how a quantised matrix is stored whose codes, scales and zero points are tensors of their own, as in
// Hugging Face checkpoints. Formats whose blocks hold their scales are WeightFormats (ops/formats/weight_format.h).
//
// Each format is a class in a file of this folder, which enters itself here before main(). The name of a format is that
// of its kind, and for kinds with groups also their length: "fp8_block", "int4_gptq_g128". Without a length one scale
// is for a whole row.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "ops/param.h"

namespace fk {

// What products with such a matrix may do with their other factor: round it to int8, or to FP8 e4m3.
struct ActivationRounding {
  bool fp8 = false;
  int64_t int8_group = 0;  // elements of a token with one scale, at most; 0: all
};

class ScaledFormat {
 public:
  virtual ~ScaledFormat() = default;

  virtual std::string_view op() const = 0;  // the operator that multiplies by such matrices: "fp8_linear"
  // The tensors of a matrix [rows, columns], with the names that checkpoints give them. Scales are f32 whatever a
  // checkpoint has: all smaller floats are converted without loss. Throws Error where the sizes do not fit.
  virtual std::vector<ParamSpec> tensors(int64_t rows, int64_t columns) const = 0;
  // One row. `tensors` are those of tensors(), in order; floats among them may be stored as f64.
  virtual void dequantise(std::span<const View> tensors, int64_t row, std::span<float> values) const = 0;
  virtual ActivationRounding activations() const = 0;

  // Formats of small integers: element k is (codes[k] - offsets[g]) * scales[g], g = k / code_group(columns).
  virtual bool has_codes() const { return false; }
  virtual int64_t code_group(int64_t columns) const { return columns; }
  virtual bool has_offsets() const { return false; }
  // The codes that occur, at most 16; empty: all of int8.
  virtual std::span<const int8_t> code_values() const { return {}; }
  // `offsets` is written only by formats that have them.
  virtual void codes(std::span<const View> tensors, int64_t row, std::span<int8_t> codes, float* scales,
                     float* offsets) const;
};

// Dequantises by codes().
class IntegerFormat : public ScaledFormat {
 public:
  void dequantise(std::span<const View> tensors, int64_t row, std::span<float> values) const override;
  bool has_codes() const override { return true; }
};

const ScaledFormat* find_scaled_format(std::string_view name);  // nullptr where unknown
const ScaledFormat& scaled_format(std::string_view name);       // throws Error that lists the known ones
std::vector<std::string> scaled_format_kinds();                 // "fp8_block", "int4_gptq_g{n}"

// The operator that multiplies by matrices of a format of either sort.
std::string_view product_of_format(std::string_view format);
double scaled_matrix_bytes(const ScaledFormat& format, int64_t rows, int64_t columns);

// const RegisterScaledFormat kFp8Block("fp8_block", [](int64_t) { return std::make_unique<Fp8Block>(); });
struct RegisterScaledFormat {
  using Factory = std::unique_ptr<ScaledFormat> (*)(int64_t group);  // group: 0 where the name gives none
  RegisterScaledFormat(std::string_view kind, Factory factory, bool has_groups = false);
};

// A dimension that groups divide, or an Error that names the format.
int64_t groups_of(std::string_view format, int64_t columns, int64_t group);
// Multiples that packed words need.
void check_multiple(std::string_view format, std::string_view what, int64_t size, int64_t of);

// Generators of ParamSpec::fill. Any bits are valid codes; scales make elements of the size that those of other
// matrices have, `code_deviation` being that of the codes.
Generator any_bits(DType dtype);
Generator scales_for(int64_t columns, double code_deviation);

}  // namespace fk
