#include "backend/cuda/l4/token_matrices.h"

#include "core/check.h"
#include "core/device_runtime.h"
#include "ops/formats/format_map.h"

namespace fk::cuda {
namespace {

constexpr int64_t kAlignment = 256;

int64_t packed_bytes(const TokenMatrixSize& size) {
  return (size.code_bytes + size.scale_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

TokenCodes TokenMatrices::codes_of(const LayerProducts& products) {
  TokenCodes common = TokenCodes::kNone;
  for (const AnyProduct::Layer& product : products) {
    if (product.weight_format.empty()) return TokenCodes::kNone;
    for (const std::string& format : formats_of_parts(product.weight_format, product.rows.size())) {
      const TokenCodes codes = token_codes_of(format, product.columns);
      if (codes == TokenCodes::kNone || (common != TokenCodes::kNone && codes != common)) return TokenCodes::kNone;
      common = codes;
    }
  }
  return common;
}

void TokenMatrices::bind(const LayerProducts& products, const Operator::PartWeight& weight, const TokenModel& model) {
  products_.clear();
  packed_ = Buffer();
  model_ = std::make_unique<TokenModel>(model);
  for (const AnyProduct::Layer& product : products) {
    Product& bound = products_.emplace_back();
    bound.parts = AnyProduct::matrices(product, weight);
    bound.columns = product.columns;
    for (int64_t rows : product.rows) bound.rows += rows;
  }
}

void TokenMatrices::pack_once(TokenCodes codes, Buffer& model_on_device, void* stream) {
  if (packed_.data() != nullptr) return;
  int64_t bytes = 0;
  for (const Product& product : products_)
    bytes += packed_bytes(token_matrix_size(codes, product.rows, product.columns));
  Device device = model_on_device.device();
  packed_ = Buffer(static_cast<size_t>(bytes), device);
  std::byte* at = packed_.data();
  for (size_t i = 0; i < products_.size(); ++i) {
    const Product& product = products_[i];
    const TokenMatrixSize size = token_matrix_size(codes, product.rows, product.columns);
    int64_t row = 0;
    for (const auto& part : product.parts) {
      part->pack_for_token(at + row * (size.code_bytes / product.rows),
                           at + size.code_bytes + row * (size.scale_bytes / product.rows), stream);
      row += part->rows();
    }
    FK_CHECK(row == product.rows);
    model_->layers[i / kProductsOfLayer].matrices[i % kProductsOfLayer] = at;
    at += packed_bytes(size);
  }
  DeviceRuntime& runtime = device_runtime(device);
  runtime.upload(model_on_device.data(), model_.get(), sizeof *model_);
  // The kernel reads its matrices before it waits for the one before it.
  runtime.synchronize();
}

}  // namespace fk::cuda
