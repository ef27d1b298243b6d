// Nesting: counts how deep expressions, blocks or calls are nested, so that a template cannot use up the stack.
#pragma once

#include <fmt/format.h>

#include <string_view>

#include "models/jinja/value.h"

namespace fk::jinja {

class Nesting {
 public:
  Nesting(int& depth, int most, std::string_view what) : depth_(depth) {
    if (depth_ >= most) throw Fault(fmt::format("{} are nested more than {} deep", what, most));
    ++depth_;
  }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  int& depth_;
};

}  // namespace fk::jinja
