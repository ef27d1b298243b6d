#include "models/dequantise.h"

#include <cstring>
#include <deque>

#include "core/check.h"
#include "core/error.h"
#include "models/convert.h"
#include "models/in_quotes.h"

namespace fk {
namespace {

constexpr std::string_view kWeight = ".weight", kTensorWeight = "weight";
// What formats call their codes that do not call them "weight".
constexpr std::string_view kPackedCodes[] = {"qweight", "weight_packed"};

bool is_module(const std::string& name) { return name.ends_with(kWeight); }
std::string path_of(const std::string& name) {
  return is_module(name) ? name.substr(0, name.size() - kWeight.size()) : name;
}

// Of `tensor` ("weight", "weight_scale", "qweight"), one of those that the matrix `name` consists of.
std::string name_in_checkpoint(const std::string& name, std::string_view tensor) {
  if (is_module(name)) return path_of(name) + "." + std::string(tensor);
  return name + std::string(tensor.starts_with(kTensorWeight) ? tensor.substr(kTensorWeight.size()) : tensor);
}

}  // namespace

const ScaledFormat* stored_format(const Checkpoint& checkpoint, const FormatOf& formats, const std::string& name) {
  if (!formats) return nullptr;
  const std::string format = formats(path_of(name));
  if (format.empty()) return nullptr;
  bool has_codes = false;
  if (std::optional<View> stored = checkpoint.find(name))
    has_codes = !dtype_is_weight(stored->dtype());
  else
    for (std::string_view codes : kPackedCodes)
      has_codes |= checkpoint.find(name_in_checkpoint(name, codes)).has_value();
  return has_codes ? &scaled_format(format) : nullptr;
}

std::vector<ParamSpec> stored_tensors(const ScaledFormat& format, const std::string& name, const Shape& shape) {
  FK_CHECK(shape.rank() == 2 || shape.rank() == 3);
  const int64_t rows = shape.numel() / shape[-1];
  std::vector<ParamSpec> tensors = format.tensors(rows, shape[-1]);
  for (ParamSpec& tensor : tensors) {
    Shape& own = tensor.spec.shape;
    if (shape.rank() == 3) {
      if (own.rank() != 2 || own[0] != rows)
        throw Error(
            "The experts {} of the checkpoint are one quantized tensor whose {} is not stored row by row, which is not "
            "supported; use a checkpoint that stores each expert by itself.",
            in_quotes(name), in_quotes(tensor.name));
      own = Shape{shape[0], shape[1], own[1]};
    }
    tensor.name = name_in_checkpoint(name, tensor.name);
  }
  return tensors;
}

Tensor dequantised(const ScaledFormat& format, const std::vector<View>& tensors, const Shape& shape,
                   const RowRange& rows, DType dtype, ThreadPool& pool) {
  FK_CHECK(dtype_is_weight(dtype));
  const int64_t columns = shape[-1];
  const std::vector<ParamSpec> wanted = format.tensors(shape.numel() / columns, columns);
  std::deque<Tensor> copies;  // of scales, which formats expect in f32, and of what the file does not align
  std::vector<View> views;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorSpec& spec = wanted[i].spec;
    const View& stored = tensors[i];
    const bool aligned = reinterpret_cast<uintptr_t>(stored.data()) % dtype_size(stored.dtype()) == 0;
    if (aligned && stored.dtype() == spec.dtype) {
      views.push_back(stored.reshape(spec.shape));
      continue;
    }
    Tensor& copy = copies.emplace_back(spec);
    if (dtype_is_weight(spec.dtype))
      convert_elements(stored.data(), stored.dtype(), copy.view().data(), spec.dtype, stored.numel());
    else
      std::memcpy(copy.view().data(), stored.data(), stored.size_bytes());
    views.push_back(copy.view());
  }
  Tensor result({rows.count, columns}, dtype);
  pool.parallel_for(rows.count, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<size_t>(columns));
    for (int64_t n = begin; n < end; ++n) {
      format.dequantise(views, rows.first + n, row);
      convert_elements(row.data(), DType::kF32, result.view().select(0, n).data(), dtype, columns);
    }
  });
  return result;
}

}  // namespace fk
