// A model from a GGUF file gives the logits of the same model whose weights are the dequantised ones, from a Hugging
// Face directory: names, the order of rows of queries and keys, ties, and parts of different formats.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "core/rng.h"
#include "engine/model_executor.h"
#include "models/safetensors_writer.h"
#include "ops/formats/weight_format.h"
#include "tests/core/on_ranks.h"
#include "tests/engine/allocation_count.h"
#include "tests/engine/logits_of_model.h"
#include "tests/models/error_text.h"
#include "tests/models/gguf_bytes.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

constexpr int64_t kGgufHidden = 256, kGgufHeads = 4, kGgufKvHeads = 2, kGgufHeadDim = 64, kGgufFfn = 512,
                  kGgufVocab = 96;

struct Formats {
  const char *most, *values, *embedding;
};

// The same model twice: as GGUF and as safetensors.
class GgufTwins {
 public:
  GgufTwins(const std::string& architecture, const Formats& formats) : file_(architecture) {
    bool llama = architecture == "llama", qwen3 = architecture == "qwen3";
    auto key = [&](const char* name) { return architecture + "." + name; };
    file_.integer(key("block_count"), 2)
        .integer(key("context_length"), 128)
        .integer(key("embedding_length"), kGgufHidden);
    file_.integer(key("feed_forward_length"), kGgufFfn).integer(key("attention.head_count"), kGgufHeads);
    file_.integer(key("attention.head_count_kv"), kGgufKvHeads).real(key("attention.layer_norm_rms_epsilon"), 1e-5f);
    file_.integer(key("attention.key_length"), kGgufHeadDim).integer(key("attention.value_length"), kGgufHeadDim);
    file_.real(key("rope.freq_base"), 10000);
    matrix("token_embd.weight", "model.embed_tokens.weight", kGgufVocab, kGgufHidden, formats.embedding);
    vector("output_norm.weight", "model.norm.weight", kGgufHidden, 1);
    for (int i = 0; i < 2; ++i) {
      std::string from = "blk." + std::to_string(i) + ".", to = "model.layers." + std::to_string(i) + ".";
      vector(from + "attn_norm.weight", to + "input_layernorm.weight", kGgufHidden, 1);
      vector(from + "ffn_norm.weight", to + "post_attention_layernorm.weight", kGgufHidden, 1);
      matrix(from + "attn_q.weight", to + "self_attn.q_proj.weight", kGgufHeads * kGgufHeadDim, kGgufHidden,
             formats.most, llama);
      matrix(from + "attn_k.weight", to + "self_attn.k_proj.weight", kGgufKvHeads * kGgufHeadDim, kGgufHidden,
             formats.most, llama);
      matrix(from + "attn_v.weight", to + "self_attn.v_proj.weight", kGgufKvHeads * kGgufHeadDim, kGgufHidden,
             i == 0 ? formats.values : formats.most);
      matrix(from + "attn_output.weight", to + "self_attn.o_proj.weight", kGgufHidden, kGgufHeads * kGgufHeadDim,
             formats.most);
      matrix(from + "ffn_gate.weight", to + "mlp.gate_proj.weight", kGgufFfn, kGgufHidden, formats.most);
      matrix(from + "ffn_up.weight", to + "mlp.up_proj.weight", kGgufFfn, kGgufHidden, formats.most);
      matrix(from + "ffn_down.weight", to + "mlp.down_proj.weight", kGgufHidden, kGgufFfn, formats.values);
      if (qwen3) {
        vector(from + "attn_q_norm.weight", to + "self_attn.q_norm.weight", kGgufHeadDim, 1);
        vector(from + "attn_k_norm.weight", to + "self_attn.k_norm.weight", kGgufHeadDim, 1);
      }
      if (architecture == "qwen2")
        for (const char* which : {"q", "k", "v"})
          vector(from + "attn_" + which + ".bias", to + "self_attn." + which + "_proj.bias",
                 (which[0] == 'q' ? kGgufHeads : kGgufKvHeads) * kGgufHeadDim, 0);
    }
    gguf_path = directory_.write("model.gguf", file_.bytes());
    std::string name = llama ? "LlamaForCausalLM" : qwen3 ? "Qwen3ForCausalLM" : "Qwen2ForCausalLM";
    directory_.write("hf/config.json",
                     "{\"architectures\":[\"" + name + "\"],\"model_type\":\"" + architecture +
                         "\",\"hidden_size\":256,\"intermediate_size\":512,\"num_hidden_layers\":2,"
                         "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":64,\"vocab_size\":96,"
                         "\"max_position_embeddings\":128,\"rms_norm_eps\":1e-5,\"rope_theta\":10000,"
                         "\"tie_word_embeddings\":true,\"torch_dtype\":\"float32\"}");
    std::vector<std::pair<std::string, View>> tensors;
    for (const auto& [tensor_name, tensor] : tensors_) tensors.emplace_back(tensor_name, tensor.view());
    hf_path = directory_.path() + "/hf";
    write_safetensors(hf_path + "/model.safetensors", tensors);
  }

  std::string gguf_path, hf_path;

 private:
  void matrix(const std::string& gguf, const std::string& hf, int64_t rows, int64_t columns, const char* format_name,
              bool pairs = false) {
    const WeightFormat& format = weight_format(format_name);
    Tensor values({rows, columns}, DType::kF32);
    Stream stream(3, hf);
    for (int64_t i = 0; i < rows * columns; ++i)
      values.ptr<float>()[i] =
          static_cast<float>(stream.normal(static_cast<uint64_t>(i)) / std::sqrt(static_cast<double>(columns)));
    auto bytes = static_cast<size_t>(format.row_bytes(columns));
    std::string data;
    for (int64_t r = 0; r < rows; ++r) {
      // llama.cpp puts row j of the second half of a head behind row j of the first.
      int64_t in_head = r % kGgufHeadDim, from = r;
      if (pairs) from = r - in_head + in_head / 2 + in_head % 2 * (kGgufHeadDim / 2);
      std::string row(bytes, '\0');
      auto* blocks = reinterpret_cast<std::byte*>(row.data());
      quantise(format, values.ptr<float>() + from * columns, columns, blocks);
      data += row;
    }
    file_.tensor(gguf, {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)},
                 static_cast<uint32_t>(format.gguf_type), data);
    std::vector<std::byte> row(bytes);
    for (int64_t r = 0; r < rows; ++r) {
      float* at = values.ptr<float>() + r * columns;
      quantise(format, at, columns, row.data());
      dequantise(format, row.data(), columns, at);
    }
    tensors_.emplace_back(hf, std::move(values));
  }

  void vector(const std::string& gguf, const std::string& hf, int64_t n, double mean) {
    Tensor values({n}, DType::kF32);
    Stream stream(3, hf);
    for (int64_t i = 0; i < n; ++i)
      values.ptr<float>()[i] = static_cast<float>(mean + 0.2 * stream.normal(static_cast<uint64_t>(i)));
    file_.tensor(gguf, {static_cast<uint64_t>(n)}, 0,
                 std::string(reinterpret_cast<const char*>(values.ptr<float>()), static_cast<size_t>(n) * 4));
    tensors_.emplace_back(hf, std::move(values));
  }

  TempDirectory directory_;
  GgufBytes file_;
  std::vector<std::pair<std::string, Tensor>> tensors_;
};

class GgufModel : public testing::TestWithParam<std::tuple<const char*, Formats>> {};

TEST_P(GgufModel, HasTheLogitsOfItsDequantisedWeights) {
  GgufTwins twins(std::get<0>(GetParam()), std::get<1>(GetParam()));
  std::vector<float> quantised = logits_of_model(twins.gguf_path), plain = logits_of_model(twins.hf_path);
  ASSERT_EQ(quantised.size(), plain.size());
  double squares = 0, errors = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    squares += static_cast<double>(plain[i]) * plain[i];
    errors += std::pow(static_cast<double>(plain[i]) - quantised[i], 2);
  }
  // Activations of 8 bits are off by 0.6 % before each of the 15 products; a wrong row, name or tie is off by 100 %.
  EXPECT_LT(std::sqrt(errors / squares), 0.03);
  EXPECT_GT(squares, 0);
}

TEST_P(GgufModel, DecodingAllocatesNothing) {
  GgufTwins twins(std::get<0>(GetParam()), std::get<1>(GetParam()));
  ThreadPool pool(2);
  Model model = load_model(resolve_model(twins.gguf_path), {.dtype = DType::kBF16}, pool);
  ModelExecutor executor(model, pool, {.max_sequences = 1, .max_context = 64});
  RunningSequence sequence = executor.start();
  const std::vector<int64_t> prompt{1, 2, 3, 4, 5, 6, 7};
  executor.prefill(sequence, prompt);
  int64_t next = 42;
  const NewTokens item{&sequence, {&next, 1}};
  for (int i = 0; i < 3; ++i) executor.forward({&item, 1});
  int64_t before = allocation_count();
  for (int i = 0; i < 10; ++i) executor.forward({&item, 1});
  EXPECT_EQ(allocation_count() - before, 0);
}

TEST(GgufModelOnRanks, HasTheLogitsOfOneRank) {
  GgufTwins twins("llama", {"q8_0", "q8_0", "q8_0"});
  std::vector<float> one = logits_of_model(twins.gguf_path);
  on_ranks(2, [&](Communicator& ranks) {
    std::vector<float> two = logits_of_model(twins.gguf_path, DType::kF32, &ranks);
    ASSERT_EQ(two.size(), one.size());
    double squares = 0, errors = 0;
    for (size_t i = 0; i < one.size(); ++i) {
      squares += static_cast<double>(one[i]) * one[i];
      errors += std::pow(static_cast<double>(one[i]) - two[i], 2);
    }
    EXPECT_LT(std::sqrt(errors / squares), 0.03);  // activations are rounded to 8 bits in blocks, as above
  });
}

TEST(GgufModelOnRanks, BlocksThatCannotBeDividedAreRefused) {
  GgufTwins twins("llama", {"q4_k", "q6_k", "q6_k"});
  expect_sentence(error_of([&] { check_divisible(resolve_model(twins.gguf_path), 2); }), {"2 ranks", "q4_k", "256"});
}

INSTANTIATE_TEST_SUITE_P(
    Families, GgufModel,
    testing::Combine(testing::Values("llama", "qwen2", "qwen3"),
                     testing::Values(Formats{"q8_0", "q8_0", "q8_0"}, Formats{"q4_k", "q6_k", "q6_k"})),
    [](const auto& p) { return std::string(std::get<0>(p.param)) + "_" + std::get<1>(p.param).most; });

}  // namespace
}  // namespace fk
