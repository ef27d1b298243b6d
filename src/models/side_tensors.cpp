#include "models/side_tensors.h"

#include <algorithm>

#include "core/error.h"
#include "models/in_quotes.h"

namespace fk {
namespace {

constexpr std::string_view kGroups = ".g_idx", kScales = ".scales";
constexpr std::string_view kUnused[] = {
    "_shape", ".input_scale", ".input_zero_point",   ".output_scale",     ".k_scale", ".v_scale",
    ".q_scale",      ".prob_scale",  ".input_global_scale", ".activation_scale", kGroups};

}  // namespace

bool is_side_tensor(std::string_view name) {
  return std::any_of(std::begin(kUnused), std::end(kUnused), [&](std::string_view end) { return name.ends_with(end); });
}

void check_side_tensor(const Checkpoint& checkpoint, const std::string& name) {
  if (!name.ends_with(kGroups)) return;
  View groups = checkpoint.find(name).value();
  std::optional<View> scales = checkpoint.find(name.substr(0, name.size() - kGroups.size()) + std::string(kScales));
  if (!scales || scales->rank() != 2) return;
  const View list = groups.reshape({groups.numel()});  // of whatever shape and dtype
  const int64_t length = list.numel() / std::max<int64_t>(scales->size(0), 1);
  for (int64_t k = 0; k < list.numel(); ++k)
    if (length == 0 || get(list, k) != static_cast<double>(k / length))
      throw Error(
          "Tensor {} of the checkpoint in {} assigns columns to groups out of order (desc_act), which is not "
          "supported; use a checkpoint made with desc_act false.",
          in_quotes(name), in_quotes(checkpoint.place()));
}

}  // namespace fk
