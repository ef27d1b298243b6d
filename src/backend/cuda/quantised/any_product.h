// AnyProduct: the product of a layer inside a fused block, whose matrix has elements of the model's dtype or a weight
// format, as AnyLinear is for compositions.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/matmul/matmul.h"
#include "backend/cuda/quantised/product.h"
#include "ops/contract.h"

namespace fk::cuda {

class AnyProduct {
 public:
  struct Layer {
    std::string path;           // of the layer in the block: "qkv_proj"
    std::string weight_format;  // of its matrices, as in ops/formats/format_map.h; empty: elements
    std::vector<int64_t> rows;  // of each stacked matrix
    int64_t columns = 0;
    bool bias = false;
  };
  void bind(const Layer& layer, const Operator::PartWeight& weight);
  // Only the matrices of a layer in a weight format.
  static std::vector<std::unique_ptr<QuantisedMatrix>> matrices(const Layer& layer, const Operator::PartWeight& weight);

  void run(Context& ctx, const View& x, const View& out);

  QuantisedProduct& quantised() { return quantised_; }
  const QuantisedProduct& quantised() const { return quantised_; }
  const void* bias() const { return bias_ ? bias_->data() : nullptr; }

 private:
  bool is_quantised_ = false;
  Matmul elements_;
  QuantisedProduct quantised_;
  View weight_;
  OptView bias_;
};

}  // namespace fk::cuda
