// 30,000 damaged safetensors files: each is refused with an Error, or every tensor it gives lies inside the file.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "models/safetensors.h"
#include "tests/fuzz/mutate.h"
#include "tests/models/safetensors_bytes.h"

namespace fk {
namespace {

std::vector<std::string> good_files() {
  return {safetensors_bytes({{"model.embed_tokens.weight", "F32", "[2,3]", f32_bytes({1, 2, 3, 4, 5, 6})},
                             {"model.norm.weight", "BF16", "[3]", u16_bytes({1, 2, 3})},
                             {"lm_head.weight", "F16", "[2,2]", u16_bytes({1, 2, 3, 4})}}),
          safetensors_bytes("{\"__metadata__\":{\"format\":\"pt\"},"
                            "\"a\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
                            "\"b\":{\"dtype\":\"U8\",\"shape\":[0,5],\"data_offsets\":[8,8]},"
                            "\"c\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[8,11]}}   ",
                            "12345678abc"),
          safetensors_bytes("{}", "")};
}

// The header's length follows its text in three of four cases, so that damage inside it is reached.
void repair_length(std::string& file, size_t data_bytes) {
  if (file.size() < 8 + data_bytes) return;
  uint64_t length = file.size() - 8 - data_bytes;
  for (int i = 0; i < 8; ++i) file[i] = static_cast<char>(length >> (8 * i) & 0xff);
}

void expect_inside(const SafetensorsEntries& entries, std::span<const std::byte> file) {
  size_t data = 0;
  unsigned sum = 0;
  for (const auto& [name, entry] : entries) {
    ASSERT_LE(entry.begin, entry.end);
    ASSERT_LE(entry.end, file.size());
    ASSERT_EQ(entry.end - entry.begin, entry.spec.size_bytes());
    data += entry.end - entry.begin;
    for (size_t i = entry.begin; i < entry.end; ++i)
      sum += static_cast<unsigned>(file[i]);  // faults where it is not ours
  }
  ASSERT_LE(data + 8, file.size());
  volatile unsigned used = sum;
  static_cast<void>(used);
}

TEST(SafetensorsFuzz, DamagedFilesLoadOrAreRefused) {
  Mutator mutator(20240601);
  std::vector<std::string> files = good_files();
  const size_t data_bytes[] = {24 + 6 + 8, 11, 0};
  int loaded = 0, refused = 0;
  for (int i = 0; i < 30000; ++i) {
    size_t which = static_cast<size_t>(mutator.below(files.size()));
    std::string bytes = mutator.mutate(files[which]);
    if (mutator.below(4) != 0) repair_length(bytes, data_bytes[which]);
    // A copy of exactly this size: a sanitizer sees a read one past its end.
    auto exact = std::make_unique<std::byte[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(exact.get()));
    std::span<const std::byte> file(exact.get(), bytes.size());
    try {
      expect_inside(parse_safetensors(file, "fuzz.safetensors"), file);
      ++loaded;
    } catch (const Error& e) {
      ASSERT_NE(std::string(e.what()).find("fuzz.safetensors"), std::string::npos);
      ++refused;
    }
  }
  EXPECT_GT(loaded, 500);
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace fk
