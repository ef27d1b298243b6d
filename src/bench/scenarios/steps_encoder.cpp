// The batches of scenarios of encoders: batch x length of texts, and batches of images.
#include <fmt/format.h>

#include <algorithm>

#include "bench/scenarios/steps.h"

namespace fk {
namespace {

struct TextBatch {
  int64_t texts;
  int64_t mean_tokens;
};
// A query of a search, a document, queries together, documents together.
constexpr TextBatch kTextBatches[] = {{1, 16}, {1, 512}, {8, 32}, {8, 128}, {32, 32}, {32, 128}};
constexpr int64_t kImageBatches[] = {1, 8, 32};

// Lengths from half of the mean to one and a half times the mean: a batch of real texts is ragged.
std::vector<Sequence> texts_of(const TextBatch& batch, int64_t longest) {
  std::vector<Sequence> list;
  for (int64_t i = 0; i < batch.texts; ++i) {
    int64_t length =
        batch.texts == 1 ? batch.mean_tokens : batch.mean_tokens / 2 + i * batch.mean_tokens / (batch.texts - 1);
    list.push_back({std::clamp<int64_t>(length, 1, longest), 0});
  }
  return list;
}

}  // namespace

std::vector<Step> text_batches(int64_t longest) {
  std::vector<Step> steps;
  for (const TextBatch& batch : kTextBatches)
    steps.push_back({fmt::format("encode-{}x{}", batch.texts, batch.mean_tokens), texts_of(batch, longest)});
  return steps;
}

std::vector<Step> image_batches(int64_t patches) {
  std::vector<Step> steps;
  for (int64_t images : kImageBatches)
    steps.push_back(
        {fmt::format("images-{}", images), std::vector<Sequence>(static_cast<size_t>(images), {patches, 0})});
  return steps;
}

std::vector<Step> steps_of(const ModelFacts& facts) {
  switch (facts.task) {
    case Task::kCausalLM:
    case Task::kDraftHead:
      return steps_of_all_sizes(facts.max_position_embeddings);
    case Task::kTextEncoder:
    case Task::kDiffusionLM:
      return text_batches(facts.max_position_embeddings);
    case Task::kImageEncoder:
      return image_batches(facts.num_patches());
  }
  return {};
}

}  // namespace fk
