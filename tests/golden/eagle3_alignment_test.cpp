// EAGLE-3 heads against the reference of tools/golden/eagle3.py: the same dummy weights and hidden states, logits of
// the first guess after every token and of further guesses, which the head makes from its own hidden states.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "core/device_runtime.h"
#include "core/json.h"
#include "engine/step_executor.h"
#include "models/config.h"
#include "models/dummy_weights.h"
#include "models/safetensors_writer.h"
#include "tests/golden/golden_model.h"

namespace fk::golden {
namespace {

const std::string kEagle3Data = FK_SOURCE_DIR "/tests/golden/eagle3_data/";

class Eagle3 : public testing::TestWithParam<Subject> {
 protected:
  Eagle3() : json_(parse_json_file(kEagle3Data + GetParam().model + ".json")), pool_(2) {
    source_.name = GetParam().model;
    source_.config = config_from_json(json_.at("config"), source_.name);
  }
  void SetUp() override {
    if (std::string why = device_missing(GetParam().device); !why.empty()) GTEST_SKIP() << why;
  }

  Model load(DType dtype) {
    LoadOptions options{
        .format = LoadFormat::kDummy, .dtype = dtype, .seed = json_.at("seed"), .device = GetParam().device};
    return load_model(source_, options, pool_);
  }

  int64_t field(const char* name) const { return std::get<int64_t>(*find_field(source_.config.init, name)); }

  Tensor hidden_states(int64_t length, const Model& model) {
    const int64_t width = field("num_aux_hidden_states") * field("target_hidden_size");
    Tensor values({1, 1, length * width}, DType::kF32), rounded({length, width}, model.config.facts.dtype);
    const std::string name = source_.name + "/hidden/" + std::to_string(length);
    fill_dummy(values, json_.at("seed"), name, dummy_range(name, values.view().shape(), 1), pool_);
    for (int64_t i = 0; i < length * width; ++i)
      store_element(
          static_cast<std::byte*>(rounded.view().data()) + static_cast<size_t>(i) * dtype_size(rounded.view().dtype()),
          rounded.view().dtype(), values.ptr<float>()[i]);
    Tensor there({length, width}, model.config.facts.dtype, model.device);
    copy_between(rounded, there);
    return there;
  }

  // Passes of one text: logits [tokens, V] of those from `first` on, after the ones before them. `hidden` of each of
  // them, [tokens, W]; its own hidden states come back.
  struct Passes {
    Passes(const Model& of, ThreadPool& pool)
        : model(of),
          executor(of, pool, {.max_sequences = 1, .max_tokens = kMost, .max_context = kMost, .blocks = kMost / 16}) {
      for (int32_t i = 0; i < kMost / 16; ++i) blocks.push_back(kMost / 16 - 1 - i);
    }
    std::vector<float> run(const std::vector<int64_t>& ids, int64_t first, int64_t count, const View& hidden) {
      own = Tensor({count + 1, model.config.facts.hidden_size}, model.config.facts.dtype, model.device);
      executor.run_by([&](Context& ctx, const StepBatch& batch, const View& logits) {
        const std::array<OptView, 6> args{batch.input_ids(),
                                          batch.positions(),
                                          hidden,
                                          batch.logits_indices(),
                                          logits,
                                          own.view().narrow(0, 0, logits.size(0))};
        model.root->call(ctx, args);
      });
      StepPlan plan;
      plan.rows.push_back({.request = 1, .first = first, .count = count, .draws = true, .blocks = blocks});
      plan.rows[0].prompt_logits = count - 1;  // the last one's come first
      const std::vector<std::span<const int64_t>> tokens{ids};
      executor.forward(plan, tokens);
      std::vector<float> found = on_host(executor.prompt_logits()), last = on_host(executor.logits());
      found.insert(found.end(), last.begin(), last.end());
      return found;
    }
    // Of the token at `place` of the last pass over `count`.
    View own_of(int64_t place, int64_t count) const {
      return own.view().narrow(0, place == count - 1 ? 0 : place + 1, 1);
    }

    static constexpr int64_t kMost = 64;
    const Model& model;
    StepExecutor executor;
    std::vector<int32_t> blocks;
    Tensor own;
  };

  // The largest difference of the tokens that the head knows; infinity where another one has a logit.
  double error(const std::vector<double>& expected, const float* logits, const Model& model, double largest) const {
    const int64_t known = field("draft_vocab_size"), all = field("vocab_size");
    std::vector<int64_t> offsets(static_cast<size_t>(known), 0), draft(static_cast<size_t>(all), -1);
    if (known != all) copy_between(model.weight("d2t"), View(offsets.data(), {known}, DType::kI64));
    for (int64_t i = 0; i < known; ++i) draft[static_cast<size_t>(i + offsets[static_cast<size_t>(i)])] = i;
    double worst = 0;
    for (size_t i = 0; i < draft.size(); ++i) {
      if (draft[i] < 0 && logits[i] == -std::numeric_limits<float>::infinity()) continue;
      const double off = draft[i] < 0 ? std::numeric_limits<double>::infinity()
                                      : std::abs(expected[static_cast<size_t>(draft[i])] - logits[i]) / largest;
      worst = off <= worst ? worst : off;  // a NaN is the worst
    }
    return worst;
  }

  void expect_aligned(const Model& model, const std::string& suffix, double bound) {
    const auto vocabulary = static_cast<size_t>(field("vocab_size"));
    for (const Json& text : json_.at("texts")) {
      const std::vector<int64_t> ids = text.at("ids");
      const auto length = std::ssize(ids);
      const std::vector<std::vector<double>> expected = text.at("logits" + suffix),
                                             further = text.at("further" + suffix);
      double largest = 0;
      for (const auto* rows : {&expected, &further})
        for (const auto& row : *rows)
          for (double x : row) largest = std::max(largest, std::abs(x));
      const Tensor hidden = hidden_states(length, model);
      Passes passes(model, pool_);
      // In one pass, then in two.
      for (int64_t cut : {int64_t{0}, length / 2}) {
        std::vector<float> got;
        if (cut > 0) got = passes.run(ids, 0, cut, hidden.view().narrow(0, 0, cut));
        for (float x : passes.run(ids, cut, length - cut, hidden.view().narrow(0, cut, length - cut))) got.push_back(x);
        for (size_t i = 0; i < expected.size(); ++i) {
          const size_t place = ids.size() - expected.size() + i;
          EXPECT_LE(error(expected[i], got.data() + place * vocabulary, model, largest), bound)
              << "token " << place << " of " << length << ", cut at " << cut;
        }
      }
      // After the last token but two the head goes on by itself.
      if (further.empty()) continue;
      const int64_t known = length - std::ssize(further);
      passes.run(ids, 0, known, hidden.view().narrow(0, 0, known));
      Tensor own({1, model.config.facts.hidden_size}, model.config.facts.dtype, model.device);
      copy_between(passes.own_of(known - 1, known), own);
      for (size_t i = 0; i < further.size(); ++i) {
        const std::vector<float> got = passes.run(ids, known + static_cast<int64_t>(i), 1, own);
        EXPECT_LE(error(further[i], got.data(), model, largest), bound) << "guess " << i + 2 << " of " << length;
        copy_between(passes.own_of(0, 1), own);
      }
    }
    for (const DispatchCount& d : collect_dispatches(*model.root)) EXPECT_NE(d.implementation, "oracle") << d.op;
  }

  Json json_;
  ModelSource source_;
  ThreadPool pool_;
};

TEST_P(Eagle3, LogitsInF32) { expect_aligned(load(DType::kF32), "", 1e-5); }

TEST_P(Eagle3, Bf16StaysWithinTheReferencesOwnError) {
  expect_aligned(load(DType::kBF16), "_bf16_weights", 1.5 * json_.at("bf16").at("largest_error").get<double>());
}

// A checkpoint under the published names gives the same logits. One of them has no embedding, which is then another
// model's.
TEST_P(Eagle3, CheckpointsOnDiskHaveThePublishedNames) {
  if (GetParam().device != kCpu) GTEST_SKIP() << "files are read on the CPU";
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / ("fk_eagle3_" + GetParam().model);
  std::filesystem::create_directories(folder);
  const Model dummy = load(DType::kF32);
  std::vector<Tensor> memory;
  std::vector<std::pair<std::string, View>> tensors;
  for (const auto& [name, extents] : json_.at("tensors").items()) {
    memory.emplace_back(Shape(extents.get<std::vector<int64_t>>()), DType::kF32);
    fill_dummy(memory.back(), json_.at("seed"), name, dummy_range(name, memory.back().view().shape(), 1), pool_);
    if (name != "embed_tokens.weight" || GetParam().model != "tiny-eagle3") tensors.emplace_back(name, memory.back());
  }
  Tensor t2d({field("vocab_size")}, DType::kBool);
  if (field("draft_vocab_size") != field("vocab_size")) {
    tensors.emplace_back("d2t", dummy.weight("d2t"));
    tensors.emplace_back("t2d", t2d);
  }
  write_safetensors((folder / "model.safetensors").string(), tensors);
  std::ofstream(folder / "config.json") << json_.at("config").dump();
  Model model = load_model(resolve_model(folder.string()), {.format = LoadFormat::kAuto, .dtype = DType::kF32}, pool_);
  EXPECT_EQ(model.lacks_embedding, GetParam().model == "tiny-eagle3");
  if (model.lacks_embedding)
    model.root->bind([&](const std::string& name) {
      return name == "embed_tokens.weight" ? dummy.weight(name) : model.weight(name);
    });
  expect_aligned(model, "", 1e-5);
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Models, Eagle3, testing::ValuesIn(subjects(kEagle3Data)),
                         [](const auto& test) { return subject_name(test.param); });

}  // namespace
}  // namespace fk::golden
