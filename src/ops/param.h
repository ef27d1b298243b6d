// A named parameter an operator needs: what the loader fills and the operator is bound to.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace fk {

struct ParamSpec {
  std::string name;  // full path once collected from a model: "model.layers.0.self_attn.qkv_proj.weight"
  TensorSpec spec;
  // How the checkpoint stores it: these tensors, stacked along dimension 0 in this order ("model...q_proj.weight", ...).
  // Filled by the model, empty where the checkpoint holds the parameter under its own name.
  std::vector<std::pair<std::string, int64_t>> parts;  // (checkpoint name, rows)
};

}  // namespace fk
