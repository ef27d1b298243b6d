// Steps: the batches that scenarios of a model are made from. The task of the model decides which.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/model_config.h"
#include "ops/workload.h"

namespace fk {

// One pass of an engine, by name: "decode-32", "prefill-512", "encode-8x128".
struct Step {
  std::string name;
  std::vector<Sequence> sequences;
};

// Those of the model's task; none of them is longer than the model allows.
std::vector<Step> steps_of(const ModelFacts& facts);

// Of language models. Decoding: so many sequences of one new token each, contexts ragged. Prefilling: so many tokens of
// ragged prompts, some of which continue earlier chunks. No sequence grows beyond max_context.
std::vector<Step> steps_of_all_sizes(int64_t max_context);
// Of text encoders: batches of texts, ragged around a mean length.
std::vector<Step> text_batches(int64_t longest);
// Of image encoders: batches of images that become `patches` vectors each.
std::vector<Step> image_batches(int64_t patches);

}  // namespace fk
