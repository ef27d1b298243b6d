// A model of any family as two checkpoints: one with quantised matrices, and one with their dequantised elements.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "core/rng.h"
#include "models/checkpoint_names.h"
#include "models/config.h"
#include "models/safetensors_writer.h"
#include "ops/formats/scaled_format.h"
#include "ops/materialize.h"
#include "tests/engine/logits_of_model.h"
#include "tests/models/temp_directory.h"

namespace fk {

class QuantisedTwins {
 public:
  // `config`: config.json without a quantization_config. `format_of`: of the matrix with this path, in the names that
  // the plain checkpoint has; empty: not quantised.
  QuantisedTwins(const std::string& config, const std::function<std::string(const std::string&)>& format_of)
      : config_(parse_json(config, "the test's config")) {
    const ModelConfig model = config_from_json(config_, "config.json");
    for (const ParamSpec& param : checkpoint_params(*build_model(model, {}), model))
      for (const auto& [name, shape] : parts_of(param)) add(name, shape, format_of);
  }

  void write(const std::string& quantization_config) {
    directory_.write("plain/config.json", config_.dump());
    Json with = config_;
    with["quantization_config"] = parse_json(quantization_config, "the test's quantization_config");
    write_quantised(with);
    store(plain_path(), plain);
  }
  void write_quantised(const Json& config) {
    write_config(config.dump());
    store(quantised_path(), quantised);
  }
  void write_config(const std::string& text) { directory_.write("quantised/config.json", text); }
  // Renames tensors of the quantised checkpoint.
  void rename(const std::function<std::string(const std::string&)>& name_of) {
    std::map<std::string, Tensor> renamed;
    for (auto& [name, tensor] : quantised) renamed.emplace(name_of(name), std::move(tensor));
    quantised = std::move(renamed);
  }

  const Json& config() const { return config_; }
  std::string plain_path() const { return directory_.path() + "/plain"; }
  std::string quantised_path() const { return directory_.path() + "/quantised"; }

  std::map<std::string, Tensor> plain, quantised;  // both may be changed before they are written
  int matrices = 0;                                // that are quantised

  // Codes and scales with names that begin with `path`, and the elements they stand for.
  Tensor quantised_matrix(const std::string& path, const std::string& format, int64_t rows, int64_t columns) {
    ++matrices;
    std::vector<View> views;
    for (const ParamSpec& spec : scaled_format(format).tensors(rows, columns)) {
      auto at = quantised.emplace(path + "." + spec.name, Tensor(spec.spec)).first;
      fill(at->second, *spec.fill, 7, path + spec.name, BatchMetadata(Workload{}, 7));
      views.push_back(at->second.view());
    }
    Tensor values({rows, columns}, DType::kF32);
    for (int64_t r = 0; r < rows; ++r)
      scaled_format(format).dequantise(views, r, {values.ptr<float>() + r * columns, static_cast<size_t>(columns)});
    return values;
  }

 private:
  using Parts = std::vector<std::pair<std::string, Shape>>;

  static Parts parts_of(const ParamSpec& param) {
    const Shape& whole = param.spec.shape;
    if (param.part_names.empty()) return {{param.name, whole}};
    if (param.stored == Stored::kWhole) return {{param.part_names[0], whole}};
    if (param.stored == Stored::kTransposed) return {{param.part_names[0], {whole[0], whole[2], whole[1]}}};
    Parts parts;
    for (size_t i = 0; i < param.part_names.size(); ++i) {
      Shape shape = whole.rank() == 1 ? whole : Shape{0, whole[-1]};
      if (param.stored == Stored::kEqualParts) shape = whole;
      shape[0] = param.stored == Stored::kEqualParts ? whole[0] / static_cast<int64_t>(param.part_names.size())
                                                     : param.part_rows[i];
      parts.emplace_back(param.part_names[i], shape);
    }
    return parts;
  }

  void add(const std::string& name, const Shape& shape,
           const std::function<std::string(const std::string&)>& format_of) {
    constexpr std::string_view kWeight = ".weight";
    const std::string path = name.substr(0, name.size() - kWeight.size());
    std::string format = name.ends_with(kWeight) && shape.rank() == 2 ? format_of(path) : "";
    if (!format.empty()) {
      plain.emplace(name, quantised_matrix(path, format, shape[0], shape[1]));
      return;
    }
    Tensor values(shape, DType::kF32);
    Stream stream(3, name);
    const double mean = shape.rank() == 1 ? 1 : 0,
                 deviation = shape.rank() == 1 ? 0.2 : 1 / std::sqrt(static_cast<double>(shape[-1]));
    for (int64_t i = 0; i < shape.numel(); ++i)
      values.ptr<float>()[i] = static_cast<float>(mean + deviation * stream.normal(static_cast<uint64_t>(i)));
    Tensor copy(shape, DType::kF32);
    std::copy(values.ptr<float>(), values.ptr<float>() + shape.numel(), copy.ptr<float>());
    plain.emplace(name, std::move(values));
    quantised.emplace(name, std::move(copy));
  }

  static void store(const std::string& path, const std::map<std::string, Tensor>& tensors) {
    std::vector<std::pair<std::string, View>> views;
    for (const auto& [name, tensor] : tensors) views.emplace_back(name, tensor.view());
    write_safetensors(path + "/model.safetensors", views);
  }

  Json config_;
  TempDirectory directory_;
};

inline void expect_same(const QuantisedTwins& twins, DType dtype = DType::kF32) {
  const std::vector<float> logits = logits_of_model(twins.quantised_path(), dtype);
  EXPECT_EQ(logits, logits_of_model(twins.plain_path(), dtype));
  EXPECT_TRUE(std::any_of(logits.begin(), logits.end(), [](float x) { return x != 0; }));
  EXPECT_TRUE(std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }));
}

}  // namespace fk
