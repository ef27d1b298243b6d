// WeightTrail: the order in which a step reads its large weights, learned in one step and known in the next, so that
// whoever reads one can have the following one fetched ahead.
//
// Steps of one loop over one model only: what was learned names memory that is still there.
#pragma once

#include <cstddef>
#include <vector>

namespace fk {

class WeightTrail {
 public:
  struct Weights {
    const void* data = nullptr;
    size_t size_bytes = 0;
  };

  // The next step follows. Learns in the first, is followed from the second on.
  void begin_step() {
    known_ = !visited_.empty();
    at_ = 0;
  }

  // These weights are read now. Gives those that were read after them when the trail was learned, the first ones after
  // the last; nothing where this step leaves the trail.
  Weights pass(const Weights& now) {
    if (!known_) {
      visited_.push_back(now);
      return {};
    }
    if (at_ >= visited_.size() || visited_[at_].data != now.data) return {};
    ++at_;
    return visited_[at_ % visited_.size()];
  }

 private:
  std::vector<Weights> visited_;
  bool known_ = false;
  size_t at_ = 0;
};

}  // namespace fk
