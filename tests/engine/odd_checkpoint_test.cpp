// Checkpoints that contradict their config or contain NaN, and caches that are too large for any machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/json.h"
#include "models/checkpoint_names.h"
#include "models/config.h"
#include "models/dummy_weights.h"
#include "models/safetensors_writer.h"
#include "tests/engine/generate.h"
#include "tests/models/error_text.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

constexpr const char* kHead = "lm_head.weight";
constexpr const char* kEmbedding = "model.embed_tokens.weight";

class OddCheckpoint : public testing::Test {
 protected:
  OddCheckpoint() : pool_(1) {
    config_ = parse_json(R"({"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3","vocab_size":64,"hidden_size":32,
        "intermediate_size":48,"num_hidden_layers":1,"num_attention_heads":2,"num_key_value_heads":1,"head_dim":16,
        "max_position_embeddings":2147483647,"tie_word_embeddings":true,"dtype":"float32"})",
                         "the test's config");
    // The tensors of an untied model, by the names of its checkpoint.
    ModelConfig untied = config_from_json(config_, "config.json");
    untied.set_tied_head(false);
    for (const ParamSpec& p : checkpoint_params(*build_model(untied, {}), untied)) {
      if (p.part_names.empty()) add(p.name, p.spec.shape);
      for (size_t i = 0; i < p.part_names.size(); ++i) {
        Shape shape = p.spec.shape;
        shape[0] = p.part_rows[i];
        add(p.part_names[i], shape);
      }
    }
  }

  void add(const std::string& name, const Shape& shape) {
    Tensor tensor(shape, DType::kF32);
    fill_dummy(tensor, 3, name, dummy_range(name, shape, 1), pool_);
    tensors_.emplace(name, std::move(tensor));
  }
  float* values(const std::string& name) { return tensors_.at(name).view().ptr<float>(); }
  void copy_embedding_to_head() { std::copy_n(values(kEmbedding), tensors_.at(kHead).view().numel(), values(kHead)); }

  Model load(DType dtype = DType::kF32) {
    folder_.write("config.json", config_.dump());
    std::vector<std::pair<std::string, View>> all;
    for (const auto& [name, tensor] : tensors_) all.emplace_back(name, tensor);
    write_safetensors(folder_.path() + "/model.safetensors", all);
    return load_model(resolve_model(folder_.path()), {.format = LoadFormat::kAuto, .dtype = dtype}, pool_);
  }
  std::vector<float> logits(const Model& model) {
    ModelExecutor executor(model, pool_, {.max_sequences = 1, .max_context = 32});
    RunningSequence sequence = executor.start();
    const int64_t prompt[] = {1, 2, 3};
    View row = executor.prefill(sequence, prompt);
    return {row.ptr<float>(), row.ptr<float>() + row.size(1)};
  }
  std::vector<int64_t> tokens(const Model& model, int64_t first, int64_t count) {
    ModelExecutor executor(model, pool_, {.max_sequences = 1, .max_context = 64});
    Sampler sampler(1, {});
    return generate(executor, sampler, {.prompt = {first}, .max_tokens = count, .sampling = {}, .stop_tokens = {}});
  }

  ThreadPool pool_;
  TempDirectory folder_;
  Json config_;
  std::map<std::string, Tensor> tensors_;
};

// As in transformers 5, which warns that it does not tie them.
TEST_F(OddCheckpoint, ATiedHeadThatDiffersIsUsed) {
  Model both = load();
  EXPECT_FALSE(both.config.facts.tied_head);
  std::vector<float> with_both = logits(both);
  config_["tie_word_embeddings"] = false;
  EXPECT_EQ(with_both, logits(load()));
}

TEST_F(OddCheckpoint, ATiedHeadThatIsTheEmbeddingStaysTied) {
  copy_embedding_to_head();
  Model both = load();
  EXPECT_TRUE(both.config.facts.tied_head);
  std::vector<float> with_both = logits(both);
  tensors_.erase(kHead);
  EXPECT_EQ(with_both, logits(load()));
}

TEST_F(OddCheckpoint, OneMatrixUnderTheHeadsNameIsTheEmbeddingToo) {
  copy_embedding_to_head();
  std::vector<float> with_both = logits(load());
  tensors_.erase(kEmbedding);
  EXPECT_EQ(with_both, logits(load()));
  config_["tie_word_embeddings"] = false;
  expect_sentence(error_of([&] { load(); }), {"lacks", kEmbedding});
}

TEST_F(OddCheckpoint, WeightsThatAreNoNumbersAreNamed) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const char* name : {"model.layers.0.mlp.down_proj.weight", "model.norm.weight", kHead}) {
      float before = values(name)[5];
      values(name)[5] = bad;
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        Model model = load(dtype);
        expect_sentence(error_of([&] { tokens(model, 1, 2); }), {dtype == DType::kF32 ? name : "weight", "NaN"});
      }
      values(name)[5] = before;
    }
  }
}

// A bad row of the embedding that no prompt uses is found when its token is sampled.
TEST_F(OddCheckpoint, ANaNThatIsMetWhileDecodingIsNamed) {
  std::vector<int64_t> drawn = tokens(load(), 1, 8);
  values(kEmbedding)[drawn[3] * 32] = std::numeric_limits<float>::quiet_NaN();
  Model model = load();
  expect_sentence(error_of([&] { tokens(model, 1, 8); }), {kEmbedding, "NaN"});
}

TEST_F(OddCheckpoint, ACacheLargerThanTheMemoryIsRefusedWithNumbers) {
  Model model = load();
  std::string why = error_of([&] { ModelExecutor(model, pool_, {.max_sequences = 1000, .max_context = 2147483647}); });
  expect_sentence(why, {"keys and values", "GiB", "memory free", "shorter"});
}

}  // namespace
}  // namespace fk
