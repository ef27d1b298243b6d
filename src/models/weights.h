// The parameters of a model, filled from a checkpoint or with dummy weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory.h"
#include "core/thread_pool.h"
#include "models/checkpoint.h"
#include "models/quantization_config.h"
#include "models/rank_slices.h"
#include "ops/param.h"

namespace fk {

class Weights {
 public:
  // Every parameter must be found in the checkpoint and every tensor of the checkpoint used, with the shape expected;
  // values are converted to the parameter's dtype (f32, f16 or bf16). A parameter that is one tensor of the checkpoint
  // in the right dtype is not copied: it is a view of the mapped file, which is read only. For other devices than the
  // CPU all parameters are copied; the next piece is converted while the last one is copied.
  // Tensors whose names begin with one of `other_parts` may stay unused.
  // slices: what this rank holds of them; parameters that are not in it are held whole. Only this rank's rows are
  // read or dequantised.
  // formats: of quantised matrices in the checkpoint; those that are elements of a dtype here are dequantised.
  static Weights load(const std::vector<ParamSpec>& specs, Checkpoint checkpoint, ThreadPool& pool,
                      Device device = kCpu, const std::vector<std::string_view>& other_parts = {},
                      const RankSlices& slices = {}, const FormatOf& formats = {});

  // norm_offset: see dummy_range(). Tensors are those the checkpoint would hold, so packing changes no value.
  // They are generated on the device.
  static Weights dummy(const std::vector<ParamSpec>& specs, uint64_t seed, float norm_offset, ThreadPool& pool,
                       Device device = kCpu, const RankSlices& slices = {});

  View get(std::string_view name) const;  // the name must be one of the specs'
  size_t size_bytes() const { return size_bytes_; }
  // The first tensor that holds a NaN or an infinity. Reads all of them.
  std::optional<std::string> first_not_finite() const;
  // The CPU's memory the parameters were copied or generated into, in one piece; empty if all of them are in the file
  // or on another device.
  std::span<const std::byte> memory() const {
    return memory_.device() == kCpu ? std::span<const std::byte>(memory_.data(), used_bytes_)
                                    : std::span<const std::byte>();
  }

 private:
  View allocate(const ParamSpec& param, const TensorSpec& spec);
  void add(const ParamSpec& param, const View& view);

  std::optional<Checkpoint> checkpoint_;  // kept while a view points into it
  Buffer memory_;
  size_t used_bytes_ = 0;
  std::map<std::string, View, std::less<>> views_;
  size_t size_bytes_ = 0;
};

}  // namespace fk
