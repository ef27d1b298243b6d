#include "backend/cuda/quantised/any_product.h"

#include <fmt/format.h>

#include "ops/formats/format_map.h"
#include "ops/formats/scaled_format.h"
#include "ops/formats/weight_format.h"

namespace fk::cuda {
namespace {

// The names of a matrix's tensors, and the group that the format's name gives.
struct Tensors {
  std::vector<std::string> names;
  int64_t group = 0;
};
Tensors tensors_of(const std::string& format, int64_t rows, int64_t columns) {
  if (find_weight_format(format) != nullptr) return {{"weight"}, 0};
  const ScaledFormat& scaled = scaled_format(format);
  Tensors result{{}, scaled.code_group(0)};
  for (const ParamSpec& tensor : scaled.tensors(rows, columns)) result.names.push_back(tensor.name);
  return result;
}

}  // namespace

void AnyProduct::bind(const Layer& layer, const Operator::PartWeight& weight) {
  bias_.reset();
  if (layer.bias) bias_ = weight(layer.path + ".bias");
  is_quantised_ = !layer.weight_format.empty();
  quantised_.clear();
  if (!is_quantised_) {
    weight_ = weight(layer.path + ".weight");
    return;
  }
  for (auto& matrix : matrices(layer, weight)) quantised_.add(std::move(matrix));
}

std::vector<std::unique_ptr<QuantisedMatrix>> AnyProduct::matrices(const Layer& layer,
                                                                   const Operator::PartWeight& weight) {
  std::vector<std::unique_ptr<QuantisedMatrix>> result;
  std::vector<std::string> formats = formats_of_parts(layer.weight_format, layer.rows.size());
  for (size_t i = 0; i < formats.size(); ++i) {
    Tensors tensors = tensors_of(formats[i], layer.rows[i], layer.columns);
    std::vector<View> views;
    for (const std::string& name : tensors.names)
      views.push_back(weight(layer.rows.size() == 1 ? fmt::format("{}.{}", layer.path, name)
                                                    : fmt::format("{}.{}_{}", layer.path, name, i)));
    result.push_back(make_matrix(
        formats[i], {.tensors = views, .rows = layer.rows[i], .columns = layer.columns, .group = tensors.group}));
  }
  return result;
}

void AnyProduct::run(Context& ctx, const View& x, const View& out) {
  if (is_quantised_)
    quantised_.run(ctx, x, bias(), out);
  else
    elements_.run(ctx, x, weight_, bias(), out);
}

}  // namespace fk::cuda
