#include "ops/formats/weight_format.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "core/error.h"
#include "ops/formats/scaled_format.h"

namespace fk {
namespace {

std::vector<WeightFormat>& all_formats() {
  static std::vector<WeightFormat> formats;
  return formats;
}

}  // namespace

RegisterWeightFormat::RegisterWeightFormat(const WeightFormat& format) {
  FK_CHECK(find_weight_format(format.name) == nullptr, "two weight formats have one name");
  FK_CHECK(format.block_elements <= kMaxBlockElements && format.block_elements % format.scale_elements == 0);
  all_formats().push_back(format);
}

std::vector<const WeightFormat*> weight_formats() {
  std::vector<const WeightFormat*> list;
  for (const WeightFormat& format : all_formats()) list.push_back(&format);
  std::sort(list.begin(), list.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  return list;
}

const WeightFormat* find_weight_format(std::string_view name) {
  for (const WeightFormat& format : all_formats())
    if (format.name == name) return &format;
  return nullptr;
}

const WeightFormat& weight_format(std::string_view name) {
  if (const WeightFormat* format = find_weight_format(name)) return *format;
  std::vector<std::string_view> names;
  for (const WeightFormat* format : weight_formats()) names.push_back(format->name);
  throw Error("There is no weight format '{}'; there are {}.", name, fmt::join(names, ", "));
}

const WeightFormat* weight_format_of_gguf(int32_t type) {
  for (const WeightFormat& format : all_formats())
    if (type >= 0 && format.gguf_type == type) return &format;
  return nullptr;
}

void dequantise(const WeightFormat& format, const std::byte* blocks, int64_t elements, float* values) {
  FK_CHECK(elements % format.block_elements == 0);
  int8_t codes[kMaxBlockElements];
  float scales[kMaxBlockElements], minimums[kMaxBlockElements] = {};
  for (int64_t at = 0; at < elements; at += format.block_elements, blocks += format.block_bytes) {
    format.unpack(blocks, codes, scales, minimums);
    for (int64_t i = 0; i < format.block_elements; ++i) {
      int64_t j = i / format.scale_elements;
      // In double both steps are exact before they are rounded: a compiler cannot fuse them into another value.
      auto product = static_cast<float>(static_cast<double>(scales[j]) * codes[i]);
      values[at + i] = format.has_minimums
                           ? static_cast<float>(static_cast<double>(product) - static_cast<double>(minimums[j]))
                           : product;
    }
  }
}

void quantise(const WeightFormat& format, const float* values, int64_t elements, std::byte* blocks) {
  FK_CHECK(elements % format.block_elements == 0);
  for (int64_t at = 0; at < elements; at += format.block_elements, blocks += format.block_bytes)
    format.quantise(values + at, blocks);
}

double matrix_bytes(std::string_view format, int64_t rows, int64_t columns, DType dtype) {
  if (const ScaledFormat* scaled = format.empty() ? nullptr : find_scaled_format(format))
    return scaled_matrix_bytes(*scaled, rows, columns);
  auto row =
      format.empty() ? columns * static_cast<int64_t>(dtype_size(dtype)) : weight_format(format).row_bytes(columns);
  return static_cast<double>(rows) * static_cast<double>(row);
}

float load_half(const std::byte* address) {
  f16 half;
  std::memcpy(&half, address, sizeof half);
  return static_cast<float>(half);
}

void store_half(std::byte* address, float value) {
  f16 half(value);
  std::memcpy(address, &half, sizeof half);
}

}  // namespace fk
