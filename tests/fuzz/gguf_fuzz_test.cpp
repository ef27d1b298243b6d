// Damaged GGUF files: each is refused with an Error, or every tensor and every string it gives lies inside the file.
#include <gtest/gtest.h>

#include <memory>

#include "core/error.h"
#include "models/gguf.h"
#include "tests/fuzz/mutate.h"
#include "tests/models/gguf_bytes.h"

namespace fk {
namespace {

std::string good_file() {
  GgufBytes file("llama");
  file.integer("llama.block_count", 2).real("llama.rope.freq_base", 10000).boolean("flag", true);
  file.texts("tokenizer.ggml.tokens", {"a", "bc", "", "def"}).integers("tokenizer.ggml.token_type", {1, 2, 3, 1});
  file.tensor("token_embd.weight", {32, 3}, 8, std::string(3 * 34, 'w'));
  file.tensor("output_norm.weight", {5}, 0, std::string(20, 'n'));
  return file.bytes();
}

unsigned sum_of(std::span<const std::byte> bytes) {
  unsigned sum = 0;
  for (std::byte b : bytes) sum += static_cast<unsigned>(b);  // faults where it is not ours
  return sum;
}

TEST(GgufFuzz, DamagedFilesLoadOrAreRefused) {
  Mutator mutator(20261116);
  std::string good = good_file();
  int loaded = 0, refused = 0;
  volatile unsigned sum = 0;
  for (int i = 0; i < 30000; ++i) {
    std::string bytes = mutator.mutate(good);
    // Numbers are binary here, and counts and lengths at the limits are what breaks readers.
    if (mutator.below(2) == 0 && bytes.size() > 8) {
      size_t at = static_cast<size_t>(mutator.below(bytes.size() - 8));
      uint64_t value = uint64_t{1} << mutator.below(64);
      std::memcpy(bytes.data() + at, &value, sizeof value);
    }
    auto exact = std::make_unique<std::byte[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(exact.get()));
    std::span<const std::byte> file(exact.get(), bytes.size());
    try {
      GgufHeader header = parse_gguf(file, "fuzz.gguf");
      for (const auto& [name, tensor] : header.tensors) {
        ASSERT_LE(tensor.begin, tensor.end);
        ASSERT_LE(tensor.end, file.size());
        ASSERT_EQ(tensor.end - tensor.begin, tensor.spec.size_bytes());
        sum = sum + sum_of(file.subspan(tensor.begin, tensor.end - tensor.begin));
      }
      for (const auto& [key, value] : header.metadata)
        sum = sum + sum_of(value.data) + sum_of(std::as_bytes(std::span(value.text.data(), value.text.size())));
      ++loaded;
    } catch (const Error& e) {
      ASSERT_NE(std::string(e.what()).find("fuzz.gguf"), std::string::npos) << e.what();
      ++refused;
    }
  }
  EXPECT_GT(loaded, 300);
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace fk
