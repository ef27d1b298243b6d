#include "models/tied_head.h"

#include <algorithm>
#include <cstring>

#include "models/checkpoint_names.h"
#include "models/convert.h"

namespace fk {
namespace {

bool same_values(const View& a, const View& b) {
  if (a.shape() != b.shape()) return false;
  if (a.dtype() == b.dtype()) return std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
  if (!dtype_is_weight(a.dtype()) || !dtype_is_weight(b.dtype())) return false;
  constexpr int64_t kPiece = 1 << 16;
  std::vector<float> values[2] = {std::vector<float>(kPiece), std::vector<float>(kPiece)};
  for (int64_t at = 0; at < a.numel(); at += kPiece) {
    int64_t count = std::min(kPiece, a.numel() - at);
    for (int i : {0, 1}) {
      const View& tensor = i == 0 ? a : b;
      const auto* bytes = static_cast<const std::byte*>(tensor.data());
      convert_elements(bytes + at * static_cast<int64_t>(dtype_size(tensor.dtype())), tensor.dtype(), values[i].data(),
                       DType::kF32, count);
    }
    if (std::memcmp(values[0].data(), values[1].data(), static_cast<size_t>(count) * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace

void untie_head_that_differs(ModelConfig& config, const Checkpoint& checkpoint) {
  if (!config.facts.tied_head) return;
  std::optional<View> head = checkpoint.find(kHeadWeight), embedding = checkpoint.find(kEmbeddingWeight);
  if (head && embedding && !same_values(*head, *embedding)) config.set_tied_head(false);
}

void find_tied_embedding(std::vector<ParamSpec>& params, const ModelConfig& config, const Checkpoint& checkpoint) {
  if (!config.facts.tied_head || checkpoint.find(kEmbeddingWeight) || !checkpoint.find(kHeadWeight)) return;
  for (ParamSpec& param : params) {
    if (param.name != kEmbeddingWeight) continue;
    param.part_names = {std::string(kHeadWeight)};
    param.part_rows = {param.spec.shape[0]};
  }
}

}  // namespace fk
