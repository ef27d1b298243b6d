// TokenMatrices: the quantised matrices of a model's layers, packed for the kernel that computes a whole token.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "backend/cuda/decode_megakernel/call.h"
#include "backend/cuda/quantised/any_product.h"
#include "core/memory.h"

namespace fk::cuda {

// The products of a layer, in the order of ProductKind, layer after layer; paths are those in the model.
using LayerProducts = std::vector<AnyProduct::Layer>;

class TokenMatrices {
 public:
  // The packed form that all products have; kNone: there is none for all.
  static TokenCodes codes_of(const LayerProducts& products);

  // `model`: all but the matrices.
  void bind(const LayerProducts& products, const Operator::PartWeight& weight, const TokenModel& model);

  // The first call packs all matrices, which needs as much memory as the codes have, and completes the model on the
  // device; it must not be recorded in a graph.
  void pack_once(TokenCodes codes, Buffer& model_on_device, void* stream);

 private:
  struct Product {
    std::vector<std::unique_ptr<QuantisedMatrix>> parts;
    int64_t rows = 0, columns = 0;
  };
  std::vector<Product> products_;
  std::unique_ptr<TokenModel> model_;
  Buffer packed_;
};

}  // namespace fk::cuda
