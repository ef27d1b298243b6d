// Random expressions over four small inputs, and their values.
#pragma once

#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "ops/algebra/evaluate.h"

namespace fk {

class RandomExprs {
 public:
  RandomExprs(uint64_t seed, bool casts) : random_(seed), casts_(casts) {
    for (const auto& [name, shape] :
         std::map<std::string, algebra::Extents>{{"a", {2, 4}}, {"b", {2, 4}}, {"c", {2, 1}}, {"d", {4}}})
      pool_.push_back(algebra::input(name, name == "b" ? DType::kBF16 : DType::kF32, shape));
    pool_.push_back(algebra::iota({2, 4}, 1));
  }

  // One more expression of earlier ones.
  algebra::Expr next() {
    pool_.push_back(make());
    return pool_.back();
  }

  // Numbers between 1/2 and 2, in steps that bf16 has.
  static algebra::Values values_of(const algebra::Head& input) {
    auto values = std::make_shared<std::vector<double>>();
    std::mt19937_64 random(std::hash<std::string>()(input.name));
    for (int64_t i = 0; i < algebra::count_elements(input.shape); ++i)
      values->push_back(0.5 + static_cast<double>(random() % 96) / 64);
    return values;
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  algebra::Expr any() { return pool_[static_cast<size_t>(pick(static_cast<int>(pool_.size())))]; }

  algebra::Expr make() {
    algebra::Expr x = any(), y = any();
    for (int tries = 0; tries < 20 && !fit(x, y); ++tries) y = any();
    if (!fit(x, y)) y = x;
    int axis = x.rank() > 0 ? pick(x.rank()) : 0;
    switch (pick(15)) {
      case 0:
        return x + y;
      case 1:
        return x * y;
      case 2:
        return x - y;
      case 3:
        return x / (abs(y) + 1);
      case 4:
        return max(x, y);
      case 5:
        return x / (pick(2) == 0 ? 4 : 3);
      case 6:
        return tanh(x);
      case 7:
        return casts_ ? cast(x, pick(2) == 0 ? DType::kBF16 : DType::kF32) : exp(-abs(x));
      case 8:
        return x.rank() > 1 ? transpose(x, 0, 1) : x * 2;
      case 9:
        return x.rank() > 0 && x.size(axis) > 1 ? slice(x, axis, x.size(axis) - 1, x.size(axis), -1) : -x;
      case 10:
        return x.rank() > 0 ? sum(x, axis) : abs(x);
      case 11:
        return x.rank() > 0 ? largest(x, axis) : abs(x);
      case 12:
        return reshape(x, {algebra::count_elements(x.shape())});
      case 13:
        return x.rank() > 0 && x.rank() < 3 ? insert_axis(x, axis) : x + 1;
      default:
        return select(x < y, x, y);
    }
  }

  static bool fit(const algebra::Expr& x, const algebra::Expr& y) {
    for (int d = 1; d <= std::min(x.rank(), y.rank()); ++d)
      if (x.size(-d) != y.size(-d) && x.size(-d) != 1 && y.size(-d) != 1) return false;
    return true;
  }

  std::mt19937_64 random_;
  bool casts_;
  std::vector<algebra::Expr> pool_;
};

// The largest difference, relative to the largest number; infinity where only one of them is finite.
inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double off = 0, scale = 1e-300;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i]) != std::isfinite(b[i])) return INFINITY;
    if (!std::isfinite(a[i])) continue;
    off = std::max(off, std::abs(a[i] - b[i]));
    scale = std::max(scale, std::abs(b[i]));
  }
  return off / scale;
}

}  // namespace fk
