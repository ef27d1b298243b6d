// The driver of diffusion language models: one pass over texts with masked tokens, packed without padding; gives the
// logits of the tokens that are asked for. engine/denoiser.h runs the passes that make a text.
#include <fmt/format.h>

#include "core/error.h"
#include "core/rng.h"
#include "engine/encoder.h"

namespace fk {
namespace {

class DiffusionLM final : public Encoder {
 public:
  DiffusionLM(const Model& model, ThreadPool& pool) : Encoder(model, pool), facts_(model.config.facts) {}

  std::string_view noun() const override { return "text"; }

  std::vector<Sequence> sequences(const EncoderInput& input) const override {
    std::vector<Sequence> list;
    for (const auto& text : input.texts) list.push_back({static_cast<int64_t>(text.size()), 0});
    return list;
  }

  // The second half of every text is masked, and the logits of a block of it are wanted.
  EncoderInput random_input(int64_t count, int64_t tokens, uint64_t seed) const override {
    constexpr int64_t kBlock = 32;
    EncoderInput input;
    for (int64_t i = 0; i < count; ++i) {
      Stream stream(seed, fmt::format("text {}", i));
      std::vector<int64_t>& text = input.texts.emplace_back();
      std::vector<int64_t>& wanted = input.wanted.emplace_back();
      const int64_t known = (tokens + 1) / 2;
      for (int64_t t = 0; t < tokens; ++t)
        text.push_back(t >= known ? facts_.mask_id
                                  : static_cast<int64_t>(stream.below(static_cast<uint64_t>(t),
                                                                      static_cast<uint64_t>(facts_.vocab_size))));
      for (int64_t t = std::max<int64_t>(tokens - kBlock, 0); t < tokens; ++t) wanted.push_back(t);
    }
    return input;
  }

 protected:
  void check(const EncoderInput& input) const override {
    if (!input.images.empty()) throw Error("{} takes texts, not images.", model_.name);
    if (!input.wanted.empty() && input.wanted.size() != input.texts.size())
      throw Error("Every text needs a list of the tokens whose logits are wanted.");
    for (size_t i = 0; i < input.texts.size(); ++i) {
      const auto size = static_cast<int64_t>(input.texts[i].size());
      if (size == 0) throw Error("A text has no tokens; give at least one.");
      if (size > facts_.max_position_embeddings)
        throw Error("{} takes texts of at most {} tokens, and one has {}; shorten it.", model_.name,
                    facts_.max_position_embeddings, size);
      for (int64_t token : input.texts[i])
        if (token < 0 || token >= facts_.vocab_size)
          throw Error("Token id {} is outside the vocabulary of {}, which has {} tokens.", token, model_.name,
                      facts_.vocab_size);
      if (input.wanted.empty()) continue;
      for (int64_t at : input.wanted[i])
        if (at < 0 || at >= size) throw Error("The logits of token {} are wanted, and the text has {}.", at, size);
    }
  }

  void fill_arguments(const EncoderInput& input, std::vector<OptView>& arguments) override {
    int64_t total = 0, count = 0;
    for (size_t i = 0; i < input.texts.size(); ++i) {
      total += std::ssize(input.texts[i]);
      count += std::ssize(input.wanted.empty() ? input.texts[i] : input.wanted[i]);
    }
    View ids = grown(ids_, {total}, DType::kI64), positions = grown(positions_, {total}, DType::kI64),
         indices = grown(indices_, {count}, DType::kI64);
    int64_t at = 0, next = 0;
    for (size_t i = 0; i < input.texts.size(); ++i) {
      const int64_t first = at;
      for (int64_t token : input.texts[i]) {
        ids.ptr<int64_t>()[at] = token;
        positions.ptr<int64_t>()[at] = at - first;
        if (input.wanted.empty()) indices.ptr<int64_t>()[next++] = at;
        ++at;
      }
      if (!input.wanted.empty())
        for (int64_t wanted : input.wanted[i]) indices.ptr<int64_t>()[next++] = first + wanted;
    }
    arguments = {ids, positions, indices};
  }

 private:
  const ModelFacts& facts_;
  Tensor ids_, positions_, indices_;
};

const RegisterEncoder kDiffusionLM(Task::kDiffusionLM,
                                   [](const Model& model, ThreadPool& pool) -> std::unique_ptr<Encoder> {
                                     return std::make_unique<DiffusionLM>(model, pool);
                                   });

}  // namespace
}  // namespace fk
