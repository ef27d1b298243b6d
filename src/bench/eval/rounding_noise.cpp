#include "bench/eval/rounding_noise.h"

#include <cmath>
#include <map>

#include "core/device_runtime.h"
#include "core/rng.h"
#include "models/checkpoint_names.h"

namespace fk {
namespace {

bool is_vector_of_floats(const View& view) {
  return view.rank() == 1 &&
         (view.dtype() == DType::kBF16 || view.dtype() == DType::kF16 || view.dtype() == DType::kF32);
}

}  // namespace

RoundingNoise::RoundingNoise(const Model& model, uint64_t seed) {
  std::map<std::string, size_t, std::less<>> places;
  for (const ParamSpec& param : collect_params(*model.root)) {
    std::string loaded = loaded_name(param.name, model.config);
    if (places.contains(loaded)) continue;
    View weight = model.weights.get(loaded);
    if (!is_vector_of_floats(weight)) continue;
    Tensor host(weight.spec());
    copy_between(weight, host.view());
    Stream up(seed, loaded);
    const double step = dtype_epsilon(weight.dtype());
    for (int64_t i = 0; i < weight.size(0); ++i) {
      // One step up or down: epsilon times the power of two below it.
      double value = get(host.view(), i);
      if (value == 0 || !std::isfinite(value)) continue;
      double neighbour = std::ldexp(step, std::ilogb(value));
      set(host.view(), up.uniform(static_cast<uint64_t>(i)) < 0.5 ? value - neighbour : value + neighbour, i);
    }
    Tensor there(weight.spec(), weight.device());
    copy_between(host.view(), there.view());
    places[loaded] = changed_.size();
    changed_.push_back(std::move(there));
  }
  model.root->bind([&](const std::string& name) {
    std::string loaded = loaded_name(name, model.config);
    auto changed = places.find(loaded);
    return changed == places.end() ? model.weights.get(loaded) : changed_[changed->second].view();
  });
}

}  // namespace fk
