// GGUF files: what is read from them, and the sentence for each kind of broken or unsupported file.
#include "models/gguf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/gguf_model.h"
#include "models/resolve.h"
#include "ops/l4/llama_for_causal_lm.h"
#include "tests/models/error_text.h"
#include "tests/models/gguf_bytes.h"
#include "tests/models/init_of.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

constexpr uint32_t kF32 = 0, kQ8_0 = 8, kQ5_K = 13;

GgufHeader header_in(const std::string& bytes) {
  return parse_gguf(std::as_bytes(std::span(bytes.data(), bytes.size())), "x.gguf");
}
std::string header_refusal(const std::string& bytes) {
  return error_of([&] { header_in(bytes); });
}

// A llama of one layer; its matrices are zero.
GgufBytes llama() {
  GgufBytes file("llama");
  file.integer("llama.block_count", 1).integer("llama.context_length", 256).integer("llama.embedding_length", 64);
  file.integer("llama.feed_forward_length", 96).integer("llama.attention.head_count", 4);
  file.integer("llama.attention.head_count_kv", 2).real("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  file.real("llama.rope.freq_base", 500000).integer("tokenizer.ggml.eos_token_id", 7);
  auto matrix = [&](const char* name, uint64_t rows, uint64_t columns) {
    file.tensor(name, {columns, rows}, kQ8_0, std::string(rows * columns / 32 * 34, '\0'));
  };
  auto norm = [&](const char* name) { file.tensor(name, {64}, kF32, std::string(64 * 4, '\0')); };
  matrix("token_embd.weight", 40, 64);
  norm("output_norm.weight");
  norm("blk.0.attn_norm.weight");
  norm("blk.0.ffn_norm.weight");
  matrix("blk.0.attn_q.weight", 64, 64);
  matrix("blk.0.attn_k.weight", 32, 64);
  matrix("blk.0.attn_v.weight", 32, 64);
  matrix("blk.0.attn_output.weight", 64, 64);
  matrix("blk.0.ffn_gate.weight", 96, 64);
  matrix("blk.0.ffn_up.weight", 96, 64);
  matrix("blk.0.ffn_down.weight", 64, 96);
  return file;
}

// The eight factors of a head of 16, by the formula of Llama 3.
GgufBytes llama3() {
  std::string factors;
  for (int i = 0; i < 8; ++i) {
    double wavelength = 2 * M_PI * std::pow(500000, i / 8.0);
    double smooth = std::clamp((8192 / wavelength - 1) / 3, 0.0, 1.0);
    factors += GgufBytes::raw(static_cast<float>(1 / ((1 - smooth) / 8 + smooth)));
  }
  return llama().tensor("rope_freqs.weight", {8}, kF32, factors);
}

RopeScaling rope_of(GgufBytes file) {
  TempDirectory directory;
  return init_of<LlamaForCausalLM>(resolve_model(directory.write("x.gguf", file.bytes())).config).rope_scaling;
}

std::string config_refusal(GgufBytes file) {
  TempDirectory directory;
  std::string path = directory.write("x.gguf", file.bytes());
  return error_of([&] { resolve_model(path); });
}

TEST(Gguf, ValuesAndTensorsAreRead) {
  GgufBytes bytes("llama");
  bytes.integer("a", 5).real("b", 0.5f).boolean("c", true).texts("d", {"x", "", "yz"}).reals("e", {1, 2});
  bytes.integers("f", {-1, 3}).tensor("m", {64, 3}, kQ8_0, std::string(3 * 68, 'q'));
  bytes.tensor("n", {2}, kF32, std::string(8, '\0'));
  TempDirectory directory;
  GgufFile file = GgufFile::open(directory.write("x.gguf", bytes.bytes()));
  EXPECT_EQ(file.string("general.architecture"), "llama");
  EXPECT_EQ(file.integer("a"), 5);
  EXPECT_EQ(file.real("b"), 0.5);
  EXPECT_EQ(file.boolean("c"), true);
  EXPECT_EQ(file.strings("d"), (std::vector<std::string_view>{"x", "", "yz"}));
  EXPECT_EQ(file.reals("e"), (std::vector<float>{1, 2}));
  EXPECT_EQ(file.integers("f"), (std::vector<int64_t>{-1, 3}));
  EXPECT_EQ(file.integer("absent"), std::nullopt);
  const GgufTensor& m = file.header().tensors.at("m");
  EXPECT_EQ(m.format, "q8_0");
  EXPECT_EQ(m.spec, (TensorSpec{{3, 68}, DType::kU8}));
  EXPECT_EQ(static_cast<const char*>(file.view(m).data())[203], 'q');
  EXPECT_EQ(file.header().tensors.at("n").spec, (TensorSpec{{2}, DType::kF32}));
  EXPECT_NE(error_of([&] { file.real("a"); }).find("'a' is not a number with a fraction"), std::string::npos);
}

TEST(Gguf, BrokenFilesAreRefusedWithASentence) {
  std::string good = llama().bytes();
  EXPECT_NE(header_refusal("").find("does not begin with the letters GGUF"), std::string::npos);
  EXPECT_NE(header_refusal("GGML" + good.substr(4)).find("does not begin with the letters GGUF"), std::string::npos);
  EXPECT_NE(header_refusal(llama().bytes(1)).find("version 1 of GGUF; versions 2 and 3"), std::string::npos);
  EXPECT_NE(header_refusal(good.substr(0, 100)).find("in the middle of a value"), std::string::npos);
  EXPECT_NE(header_refusal(good.substr(0, good.size() - 1)).find("was not fetched completely"), std::string::npos);
  EXPECT_NE(header_refusal(GgufBytes("x").integer("a", 1).integer("a", 2).bytes()).find("'a' is there twice"),
            std::string::npos);
  EXPECT_NE(
      header_refusal(GgufBytes("x").tensor("t", {33}, kQ8_0, std::string(34, 'x')).bytes()).find("whole blocks of 32"),
      std::string::npos);
  EXPECT_NE(header_refusal(GgufBytes("x").tensor("t", {0}, kF32, "").bytes()).find("a dimension of 0"),
            std::string::npos);
  expect_sentence(header_refusal("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 5\n"),
                  {"'x.gguf' is a Git LFS pointer", "git lfs pull"});
  std::string huge = GgufBytes("x").tensor("t", {uint64_t{1} << 62, 1 << 10}, kF32, "").bytes();
  EXPECT_NE(header_refusal(huge).find("tensor 't' has a dimension"), std::string::npos);
}

TEST(Gguf, AnUnsupportedTypeIsNamedWithThoseSupported) {
  std::string text = header_refusal(GgufBytes("x").tensor("t", {256}, kQ5_K, std::string(176, 'x')).bytes());
  EXPECT_NE(text.find("tensor 't' as Q5_K, which is not supported; supported are f32, f16, bf16, mxfp4, q4_0"),
            std::string::npos)
      << text;
}

TEST(Gguf, TheConfigurationComesFromTheMetadata) {
  TempDirectory directory;
  std::string path = directory.write("x.gguf", llama().bytes());
  ModelSource source = resolve_model(path);
  EXPECT_EQ(source.config.architecture(), "LlamaForCausalLM");
  EXPECT_EQ(source.config.facts.hidden_size, 64);
  EXPECT_EQ(source.config.facts.vocab_size, 40);
  EXPECT_TRUE(source.config.facts.tied_head);
  EXPECT_EQ(std::get<std::string>(*find_field(source.config.init, "weight_format")), "q8_0");
  EXPECT_FALSE(std::get<bool>(*find_field(source.config.init, "is_neox_style")));
  EXPECT_EQ(gguf_generation_defaults(GgufFile::open(path)).eos, std::vector<int64_t>{7});
}

TEST(Gguf, YarnKnowsTheContextOfTheTraining) {
  GgufBytes yarn = llama().text("llama.rope.scaling.type", "yarn").real("llama.rope.scaling.factor", 4);
  EXPECT_EQ(rope_of(yarn).original_max_position_embeddings, 256);  // the context of the file
  RopeScaling rope = rope_of(yarn.integer("llama.rope.scaling.original_context_length", 64));
  EXPECT_EQ(rope.type, "yarn");
  EXPECT_EQ(rope.factor, 4);
  EXPECT_EQ(rope.original_max_position_embeddings, 64);
}

TEST(Gguf, FactorsOfFrequenciesAreNotScaledOnceMore) {
  EXPECT_EQ(rope_of(llama3()).type, "llama3");
  EXPECT_EQ(rope_of(llama3().text("llama.rope.scaling.type", "linear").real("llama.rope.scaling.factor", 1)).factor, 8);
  for (const char* type : {"linear", "yarn"})
    expect_sentence(config_refusal(llama3().text("llama.rope.scaling.type", type).real("llama.rope.scaling.factor", 3)),
                    {"scales rotary frequencies twice", type, "rope_freqs.weight"});
  expect_sentence(config_refusal(llama3().real("llama.rope.scale_linear", 2)), {"twice", "'linear'"});
}

TEST(Gguf, AFileThatIsNoModelIsRefusedByItsType) {
  EXPECT_EQ(config_refusal(llama().text("general.type", "model")), "(no error)");
  expect_sentence(config_refusal(llama().text("general.type", "adapter")), {"'adapter'", "llama-export-lora"});
  expect_sentence(config_refusal(GgufBytes("clip").text("general.type", "mmproj")), {"'mmproj'", "file of the model"});
}

TEST(Gguf, WhatAModelAsksForAndIsNotSupportedIsRefusedByName) {
  EXPECT_NE(config_refusal(GgufBytes("mamba")).find("architecture 'mamba'; known in GGUF files are"),
            std::string::npos);
  EXPECT_NE(config_refusal(GgufBytes("llama")).find("holds no token_embd.weight"), std::string::npos);
  EXPECT_NE(
      config_refusal(llama().integer("llama.attention.sliding_window", 8)).find("'llama.attention.sliding_window'"),
      std::string::npos);
  EXPECT_NE(config_refusal(llama().integer("llama.expert_count", 8)).find("mixture of experts"), std::string::npos);
  EXPECT_NE(config_refusal(llama().integer("llama.rope.dimension_count", 8)).find("only a part of every head"),
            std::string::npos);
  EXPECT_NE(config_refusal(llama().integer("split.count", 3)).find("one of 3 parts"), std::string::npos);
  EXPECT_NE(config_refusal(llama().tensor("rope_freqs.weight", {8}, kF32, std::string(32, '\0')))
                .find("not those of Llama 3"),
            std::string::npos);
}

}  // namespace
}  // namespace fk
