#include "models/tied_head.h"

#include <algorithm>
#include <cstring>

#include "models/convert.h"

namespace fk {
namespace {

constexpr std::string_view kHead = "lm_head.weight";
constexpr std::string_view kEmbedding = "model.embed_tokens.weight";

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

void untie_head_that_differs(CausalLMConfig& config, const Checkpoint& checkpoint) {
  if (!config.tie_word_embeddings) return;
  std::optional<View> head = checkpoint.find(kHead), embedding = checkpoint.find(kEmbedding);
  if (head && embedding && !same_values(*head, *embedding)) config.tie_word_embeddings = false;
}

void find_tied_embedding(std::vector<ParamSpec>& params, const CausalLMConfig& config, const Checkpoint& checkpoint) {
  if (!config.tie_word_embeddings || checkpoint.find(kEmbedding) || !checkpoint.find(kHead)) return;
  for (ParamSpec& param : params) {
    if (param.name != kEmbedding) continue;
    param.part_names = {std::string(kHead)};
    param.part_rows = {param.spec.shape[0]};
  }
}

}  // namespace fk
