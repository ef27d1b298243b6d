// SideWeights: the weights that the sides of a timing read.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "bench/kernels/launch_sides.h"
#include "sandbox/call_memory.h"

namespace fk {

// Each side has a copy of its own, and they exchange them from launch to launch like the memory they write to. If all
// read the same memory, it would be read three times a round and stay in the caches, but what a candidate has packed
// only once: a plain copy of the weights made it up to 24 % slower.
class SideWeights {
 public:
  SideWeights(const Node& root, std::span<const Tensor> params, Device device) {
    constexpr size_t kMostCopied = size_t{256} << 20;  // larger ones do not stay in caches
    do copies_.push_back(share_params(root, params, device));
    while (device == kCpu && copies_[0]->size_bytes() <= kMostCopied && copies_.size() < LaunchSides::kTimed);
  }

  const SharedTensors& of(int memory) const { return *copies_[static_cast<size_t>(memory) % copies_.size()]; }

 private:
  std::vector<std::unique_ptr<SharedTensors>> copies_;
};

}  // namespace fk
