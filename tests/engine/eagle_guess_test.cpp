// What an EAGLE-3 head guesses: what it would say after the whole text, from hidden states that the target has written.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "core/device_runtime.h"
#include "engine/draft_model.h"
#include "engine/speculation.h"

namespace fk {
namespace {

// A head beside a target that only writes hidden states: those of a position are random, but the same for everyone, and
// not there before the step that computes them.
class HeadAlone {
 public:
  static constexpr int64_t kPage = 4, kBlocks = 24, kGuesses = 3, kWidth = 64, kLayers = 3, kVocabulary = 320;

  HeadAlone() : pool_(1), head_(load_model(resolve_model("tiny-eagle3"), kLoad, pool_)) {
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      states_.emplace_back(Shape{kBlocks, kPage, kWidth}, DType::kF32);
      views_.push_back(states_.back());
      std::fill_n(views_.back().ptr<float>(), views_.back().numel(), std::numeric_limits<float>::quiet_NaN());
    }
    draft_.emplace(head_, pool_, limits(7), views_);
  }

  static inline const LoadOptions kLoad{.format = LoadFormat::kDummy, .dtype = DType::kF32, .seed = 5};
  static StepLimits limits(int64_t tokens) {
    return {.max_sequences = 2, .max_tokens = tokens, .max_context = 64, .page_size = kPage, .blocks = kBlocks};
  }
  static Request request(int64_t tokens) {
    Request request;
    for (int64_t i = 0; i < tokens; ++i) request.prompt.push_back((5 + 31 * i) % kVocabulary);
    request.max_tokens = 30;
    return request;
  }
  static float value(int64_t position, int64_t layer, int64_t i) {
    return std::sin(static_cast<float>((position * 37 + layer * 11 + i * i) % 1009));
  }

  struct Row {
    LiveRequest* live;
    std::vector<int32_t>* blocks;
    int64_t first, count;
    int64_t guesses = 0;
    bool first_step = false;
  };
  // Guesses, then what the target writes.
  std::vector<std::vector<int64_t>> step(const std::vector<Row>& rows) {
    StepPlan plan;
    std::vector<LiveRequest*> lives;
    for (const Row& r : rows) {
      PlannedRow row;
      row.request = r.live->id();
      row.first = r.first;
      row.count = r.count + r.guesses;
      row.draws = r.first + r.count == std::ssize(r.live->tokens());
      row.drafts.assign(static_cast<size_t>(r.guesses), kUnknownGuess);
      row.first_step = r.first_step;
      row.blocks = *r.blocks;
      plan.rows.push_back(std::move(row));
      lives.push_back(r.live);
    }
    draft_->guess(plan, lives);
    std::vector<std::vector<int64_t>> guesses;
    for (size_t i = 0; i < rows.size(); ++i) {
      guesses.push_back(plan.rows[i].drafts);
      for (int64_t at = rows[i].first; at < rows[i].first + rows[i].count + rows[i].guesses; ++at)
        for (int64_t layer = 0; layer < kLayers; ++layer)
          for (int64_t j = 0; j < kWidth; ++j)
            views_[static_cast<size_t>(layer)].ptr<float>()[slot(*rows[i].blocks, at) * kWidth + j] =
                value(at, layer, j);
    }
    return guesses;
  }
  // The whole text in one pass, then guess by guess.
  std::vector<int64_t> alone(const LiveRequest& live) {
    StepExecutor executor(head_, pool_, limits(64));
    std::vector<int32_t> blocks(16);
    std::iota(blocks.begin(), blocks.end(), 0);
    std::vector<int64_t> text(live.tokens().begin() + 1, live.tokens().end()), guesses;
    Tensor own({1, kWidth}, DType::kF32), last({1, kWidth}, DType::kF32), into({64, kLayers * kWidth}, DType::kF32);
    const auto known = std::ssize(text);
    for (int64_t i = 0; i < known; ++i)
      for (int64_t layer = 0; layer < kLayers; ++layer)
        for (int64_t j = 0; j < kWidth; ++j) into.ptr<float>()[(i * kLayers + layer) * kWidth + j] = value(i, layer, j);
    for (int64_t guess = 0; guess < kGuesses; ++guess) {
      const View hidden = guess == 0 ? into.view().narrow(0, 0, known) : own.view();
      executor.run_by([&](Context& ctx, const StepBatch& batch, const View& logits) {
        const std::array<OptView, 6> args{batch.input_ids(), batch.positions(), hidden, batch.logits_indices(), logits,
                                          last.view()};
        head_.root->call(ctx, args);
      });
      StepPlan plan;
      plan.rows.push_back({.request = 1,
                           .first = guess == 0 ? 0 : known + guess - 1,
                           .count = guess == 0 ? known : 1,
                           .draws = true,
                           .blocks = blocks});
      const std::vector<std::span<const int64_t>> tokens{text};
      const View logits = executor.forward(plan, tokens);
      guesses.push_back(std::max_element(logits.ptr<float>(), logits.ptr<float>() + kVocabulary) - logits.ptr<float>());
      text.push_back(guesses.back());
      copy_between(last, own);
    }
    return guesses;
  }

 private:
  static int64_t slot(const std::vector<int32_t>& blocks, int64_t position) {
    return blocks[static_cast<size_t>(position / kPage)] * kPage + position % kPage;
  }

  ThreadPool pool_;
  Model head_;
  std::vector<Tensor> states_;
  std::vector<View> views_;
  std::optional<DraftModel> draft_;
};

// Guesses are what the head says after the whole text and the hidden states of its tokens, whatever it guessed before.
TEST(EagleGuess, GuessesWhatItWouldSayItself) {
  HeadAlone s;
  LiveRequest live(1, HeadAlone::request(19), {}, nullptr, HeadAlone::kVocabulary);
  std::vector<int32_t> blocks(16);
  for (int32_t i = 0; i < 16; ++i) blocks[static_cast<size_t>(i)] = (7 * i + 3) % 16;
  s.step({{&live, &blocks, 0, 11, 0, true}});
  s.step({{&live, &blocks, 11, 8}});
  live.add(8, {});
  for (int round = 0; round < 5; ++round) {
    const std::vector<int64_t> guesses =
        s.step({{&live, &blocks, std::ssize(live.tokens()) - 1, 1, HeadAlone::kGuesses}})[0];
    EXPECT_EQ(guesses, s.alone(live)) << round;
    // All of them right, some of them, or none; and then one more token.
    for (int i = 0; i < round % 4; ++i) live.add(guesses[static_cast<size_t>(i)], {});
    live.add(9 + round, {});
  }
}

// Requests of one prompt that are admitted to one step share pages that are computed in it: the hidden states of these
// are not there yet. Whether the request that computes them is guessed does not matter.
TEST(EagleGuess, WaitsForHiddenStatesOfThePagesItShares) {
  for (bool guessed : {true, false}) {
    SCOPED_TRACE(guessed);
    HeadAlone s;
    Request other = HeadAlone::request(19);
    if (!guessed) other.sampling.repetition_penalty = 1.3;
    LiveRequest one(1, other, {}, nullptr, HeadAlone::kVocabulary);
    LiveRequest two(2, HeadAlone::request(19), {}, nullptr, HeadAlone::kVocabulary);
    LiveRequest late(3, HeadAlone::request(19), {}, nullptr, HeadAlone::kVocabulary);
    std::vector<int32_t> first = {3, 9, 1, 6, 12, 14, 15}, second = {3, 9, 1, 6, 20, 21, 22},
                         third = {3, 9, 1, 6, 17, 18, 19};
    const int64_t guesses = guessed ? HeadAlone::kGuesses : 0;
    s.step({{&one, &first, 0, 10, 0, true}});
    s.step({{&one, &first, 10, 9}, {&two, &second, 16, 3, 0, true}});
    one.add(8, {});
    two.add(11, {});
    const std::vector<std::vector<int64_t>> found =
        s.step({{&one, &first, 19, 1, guesses}, {&two, &second, 19, 1, HeadAlone::kGuesses}});
    if (guessed) {
      EXPECT_EQ(found[0], s.alone(one));
    }
    EXPECT_EQ(found[1], s.alone(two));
    // What was computed then is right for those that come later.
    s.step({{&late, &third, 16, 3, 0, true}});
    late.add(13, {});
    EXPECT_EQ(s.step({{&late, &third, 19, 1, HeadAlone::kGuesses}})[0], s.alone(late));
  }
}

}  // namespace
}  // namespace fk
