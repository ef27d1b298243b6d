#include "ops/formats/scaled_format.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <mutex>

#include "core/check.h"
#include "core/error.h"
#include "ops/formats/weight_format.h"

namespace fk {
namespace {

struct Kind {
  RegisterScaledFormat::Factory factory;
  bool has_groups;
};
std::map<std::string, Kind, std::less<>>& all_kinds() {
  static std::map<std::string, Kind, std::less<>> kinds;
  return kinds;
}

constexpr std::string_view kGroup = "_g";
constexpr int64_t kLongestGroup = 1 << 20;

std::unique_ptr<ScaledFormat> make_format(std::string_view name) {
  if (auto kind = all_kinds().find(name); kind != all_kinds().end()) return kind->second.factory(0);
  size_t at = name.rfind(kGroup);
  if (at == std::string_view::npos) return nullptr;
  auto kind = all_kinds().find(name.substr(0, at));
  std::string_view digits = name.substr(at + kGroup.size());
  int64_t group = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), group);
  bool number = error == std::errc() && end == digits.data() + digits.size() && group > 0 && group <= kLongestGroup;
  if (kind == all_kinds().end() || !kind->second.has_groups || !number) return nullptr;
  return kind->second.factory(group);
}

}  // namespace

RegisterScaledFormat::RegisterScaledFormat(std::string_view kind, Factory factory, bool has_groups) {
  FK_CHECK(all_kinds().emplace(kind, Kind{factory, has_groups}).second, "two weight formats have one name");
}

void ScaledFormat::codes(std::span<const View>, int64_t, std::span<int8_t>, float*, float*) const {
  FK_CHECK(false, "the format has no integer codes");
}

void IntegerFormat::dequantise(std::span<const View> tensors, int64_t row, std::span<float> values) const {
  auto columns = static_cast<int64_t>(values.size());
  int64_t group = code_group(columns), groups = columns / group;
  thread_local std::vector<int8_t> row_codes;
  thread_local std::vector<float> scales;
  row_codes.resize(values.size());
  scales.resize(static_cast<size_t>(2 * groups));
  codes(tensors, row, row_codes, scales.data(), scales.data() + groups);
  for (int64_t g = 0; g < groups; ++g) {
    float scale = scales[static_cast<size_t>(g)];
    float offset = has_offsets() ? scales[static_cast<size_t>(groups + g)] : 0;
    float* to = values.data() + g * group;
    const int8_t* from = row_codes.data() + g * group;
    for (int64_t i = 0; i < group; ++i) to[i] = (static_cast<float>(from[i]) - offset) * scale;
  }
}

const ScaledFormat* find_scaled_format(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<ScaledFormat>, std::less<>> made;
  std::lock_guard lock(mutex);
  auto found = made.find(name);
  if (found == made.end()) {
    std::unique_ptr<ScaledFormat> format = make_format(name);
    if (!format) return nullptr;
    found = made.emplace(name, std::move(format)).first;
  }
  return found->second.get();
}

std::vector<std::string> scaled_format_kinds() {
  std::vector<std::string> kinds;
  for (const auto& [name, kind] : all_kinds()) kinds.push_back(kind.has_groups ? name + "_g{n}" : name);
  return kinds;
}

const ScaledFormat& scaled_format(std::string_view name) {
  if (const ScaledFormat* format = find_scaled_format(name)) return *format;
  std::vector<std::string> names = scaled_format_kinds();
  for (const WeightFormat* format : weight_formats()) names.emplace_back(format->name);
  throw Error("There is no weight format '{}'; there are {}.", name, fmt::join(names, ", "));
}

std::string_view product_of_format(std::string_view format) {
  if (find_weight_format(format) != nullptr) return "gguf_linear";
  return scaled_format(format).op();
}

double scaled_matrix_bytes(const ScaledFormat& format, int64_t rows, int64_t columns) {
  double bytes = 0;
  for (const ParamSpec& p : format.tensors(rows, columns)) bytes += static_cast<double>(p.spec.size_bytes());
  return bytes;
}

int64_t groups_of(std::string_view format, int64_t columns, int64_t group) {
  if (group == 0) return 1;
  check_multiple(format, "input features", columns, group);
  return columns / group;
}

void check_multiple(std::string_view format, std::string_view what, int64_t size, int64_t of) {
  if (size % of != 0)
    throw Error("The {} of a matrix in {} must be a multiple of {}, and are {}.", what, format, of, size);
}

Generator any_bits(DType dtype) {
  if (dtype == DType::kI32) return Generator::integers(INT32_MIN, int64_t{INT32_MAX} + 1);
  if (dtype == DType::kI8) return Generator::integers(-127, 128);
  FK_CHECK(dtype == DType::kU8);
  return Generator::integers(0, 256);
}

Generator scales_for(int64_t columns, double code_deviation) {
  double scale = 1 / (code_deviation * std::sqrt(static_cast<double>(std::max<int64_t>(columns, 1))));
  return Generator::uniform(0.75 * scale, 1.25 * scale);
}

}  // namespace fk
