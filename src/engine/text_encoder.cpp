// The driver of text encoders: packs the tokens of all texts without padding and numbers their positions.
#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/rng.h"
#include "engine/encoder.h"
#include "engine/host_staging.h"

namespace fk {
namespace {

class TextEncoder final : public Encoder {
 public:
  TextEncoder(const Model& model, ThreadPool& pool)
      : Encoder(model, pool),
        facts_(model.config.facts),
        ids_(model.device),
        positions_(model.device),
        types_(model.device) {}

  std::string_view noun() const override { return "text"; }

  std::vector<Sequence> sequences(const EncoderInput& input) const override {
    std::vector<Sequence> list;
    for (const auto& text : input.texts) list.push_back({static_cast<int64_t>(text.size()), 0});
    return list;
  }

  EncoderInput random_input(int64_t count, int64_t tokens, uint64_t seed) const override {
    EncoderInput input;
    for (int64_t i = 0; i < count; ++i) {
      Stream stream(seed, fmt::format("text {}", i));
      std::vector<int64_t>& text = input.texts.emplace_back();
      for (int64_t t = 0; t < tokens; ++t)
        text.push_back(
            static_cast<int64_t>(stream.below(static_cast<uint64_t>(t), static_cast<uint64_t>(facts_.vocab_size))));
    }
    return input;
  }

 protected:
  void check(const EncoderInput& input) const override {
    if (!input.images.empty()) throw Error("{} takes texts, not images.", model_.name);
    for (const auto& text : input.texts) {
      if (text.empty()) throw Error("A text has no tokens; give at least one.");
      if (static_cast<int64_t>(text.size()) > facts_.max_position_embeddings)
        throw Error("{} takes texts of at most {} tokens, and one has {}; shorten it.", model_.name,
                    facts_.max_position_embeddings, text.size());
      for (int64_t token : text)
        if (token < 0 || token >= facts_.vocab_size)
          throw Error("Token id {} is outside the vocabulary of {}, which has {} tokens.", token, model_.name,
                      facts_.vocab_size);
    }
  }

  void fill_arguments(const EncoderInput& input, std::vector<OptView>& arguments) override {
    int64_t total = 0;
    for (const auto& text : input.texts) total += static_cast<int64_t>(text.size());
    View ids = ids_.grown({total}, DType::kI64), positions = positions_.grown({total}, DType::kI64),
         types = types_.grown({total}, DType::kI64);
    auto *id = ids.ptr<int64_t>(), *position = positions.ptr<int64_t>();
    for (const auto& text : input.texts) {
      int64_t next = facts_.padding_id + 1;
      for (int64_t token : text) {
        *id++ = token;
        // As transformers numbers them: a padding token inside a text has a position of its own and is not counted.
        *position++ = token == facts_.padding_id ? facts_.padding_id : next++;
      }
    }
    std::fill_n(types.ptr<int64_t>(), total, 0);
    arguments = {ids, positions, types};
  }

 private:
  const ModelFacts& facts_;
  HostStaging ids_, positions_, types_;
};

const RegisterEncoder kTextEncoder(Task::kTextEncoder,
                                   [](const Model& model, ThreadPool& pool) -> std::unique_ptr<Encoder> {
                                     return std::make_unique<TextEncoder>(model, pool);
                                   });

}  // namespace
}  // namespace fk
