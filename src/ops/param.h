// ParamSpec: a named parameter of an operator, filled by the loader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "ops/workload.h"

namespace fk {

// How a checkpoint stores a parameter.
enum class Stored : uint8_t {
  kRows,             // as matrices that are its rows, one above the other
  kWhole,            // as one tensor of its shape
  kEqualParts,       // as tensors of one shape, one behind the other along its first dimension
  kTransposed,       // each of several matrices [E, N, K] as [K, N], in one tensor
  kBlocksAndScales,  // experts in MXFP4 as two tensors: elements u8 [E, N, K / 32, 16] and scales u8 [E, N, K / 32]
};

struct ParamSpec {
  std::string name;  // relative to its operator, or the full path once collected: "model.layers.0.mlp.down_proj.weight"
  TensorSpec spec;
  // Rows of each matrix stacked in it; empty: it is one. Experts [E, N, K] are counted as E * N rows.
  std::vector<int64_t> part_rows = {};
  // The checkpoint's names of those parts, in order, set by the model that packs them; empty: its own name.
  std::vector<std::string> part_names = {};
  // Of a quantised matrix (ops/formats/weight_format.h), whose spec is that of its bytes; empty: elements of
  // spec.dtype.
  std::string format = {};
  // The parameter holds only this one of several stacked matrices; negative: it holds all of them. Parts of different
  // formats have rows of different lengths, and parts that are not copied together can stay in the mapped file.
  int64_t part = -1;
  // Of a tensor that a quantised matrix consists of (ops/formats/scaled_format.h): plausible codes, scales or zero
  // points. Checkpoints must have it in exactly this dtype unless it is f32.
  std::optional<Generator> fill = {};
  Stored stored = Stored::kRows;
};

}  // namespace fk
