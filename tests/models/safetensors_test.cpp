// safetensors: reading valid files, and refusing every invalid header.
#include "models/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <span>

#include "tests/models/error_text.h"
#include "tests/models/safetensors_bytes.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

SafetensorsEntries parse(const std::string& bytes) {
  return parse_safetensors(std::as_bytes(std::span(bytes)), "x.safetensors");
}

// A file of one tensor "a" whose entry is given, followed by `data_bytes` of data.
std::string one_tensor(const std::string& entry, size_t data_bytes) {
  return safetensors_bytes("{\"a\":" + entry + "}", std::string(data_bytes, '\0'));
}

TEST(Safetensors, GivesTheTensorsOfAFile) {
  TempDirectory dir;
  std::string path =
      dir.write("m.safetensors", safetensors_bytes({{"b", "F32", "[2,3]", f32_bytes({1, 2, 3, 4, 5, -6})},
                                                    {"a", "BF16", "[2]", u16_bytes({0x3f80, 0xc000})},
                                                    {"scalar", "F16", "[]", u16_bytes({0x3c00})},
                                                    {"empty", "I64", "[0,7]", ""},
                                                    {"flags", "BOOL", "[3]", std::string("\1\0\1", 3)}}));
  SafetensorsFile file = SafetensorsFile::open(path);
  ASSERT_EQ(file.entries().size(), 5u);
  View b = file.view(file.entries().at("b"));
  EXPECT_EQ(b.str(), "f32[2, 3]");
  EXPECT_EQ(get(b, 1, 2), -6);
  View a = file.view(file.entries().at("a"));
  EXPECT_EQ(a.str(), "bf16[2]");
  EXPECT_EQ(get(a, 0), 1);
  EXPECT_EQ(get(a, 1), -2);
  View scalar = file.view(file.entries().at("scalar"));
  EXPECT_EQ(scalar.str(), "f16[]");
  EXPECT_EQ(load_element(scalar.data(), scalar.dtype()), 1);
  EXPECT_EQ(file.view(file.entries().at("empty")).numel(), 0);
  EXPECT_EQ(get(file.view(file.entries().at("flags")), 2), 1);
}

TEST(Safetensors, ReadsTheSameAfterItsPagesWereReleased) {
  TempDirectory dir;
  std::vector<float> values(10000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  SafetensorsFile file = SafetensorsFile::open(
      dir.write("m.safetensors", safetensors_bytes({{"a", "F32", "[10000]", f32_bytes(values)}})));
  const SafetensorsEntry& entry = file.entries().at("a");
  file.release(entry);
  View a = file.view(entry);
  for (int64_t i = 0; i < a.numel(); ++i) ASSERT_EQ(get(a, i), static_cast<double>(i));
}

TEST(Safetensors, TakesMetadataPaddingAndAnEmptyFile) {
  EXPECT_EQ(parse(safetensors_bytes("{\"__metadata__\":{\"format\":\"pt\"}}     ", "")).size(), 0u);
  EXPECT_EQ(parse(safetensors_bytes("{}", "")).size(), 0u);
  EXPECT_EQ(parse(safetensors_bytes("{\"a\":{\"data_offsets\":[0,1],\"shape\":[1],\"dtype\":\"U8\"}}", "x")).size(),
            1u);
}

TEST(Safetensors, KnowsEveryDTypeItCanHold) {
  struct Case {
    const char* name;
    DType dtype;
    size_t size;
  };
  for (auto [name, dtype, size] : std::initializer_list<Case>{{"F64", DType::kF64, 8},
                                                              {"F32", DType::kF32, 4},
                                                              {"F16", DType::kF16, 2},
                                                              {"BF16", DType::kBF16, 2},
                                                              {"F8_E4M3", DType::kF8E4M3, 1},
                                                              {"F8_E5M2", DType::kF8E5M2, 1},
                                                              {"I8", DType::kI8, 1},
                                                              {"U8", DType::kU8, 1},
                                                              {"I32", DType::kI32, 4},
                                                              {"I64", DType::kI64, 8},
                                                              {"BOOL", DType::kBool, 1}}) {
    auto entries = parse(safetensors_bytes({{"a", name, "[3]", std::string(3 * size, '\0')}}));
    EXPECT_EQ(entries.at("a").spec, (TensorSpec{{3}, dtype})) << name;
  }
}

TEST(Safetensors, RefusesFilesThatAreTooShortOrLieAboutTheirHeader) {
  expect_sentence(error_of([] { parse(""); }), {"'x.safetensors'", "0 bytes"});
  expect_sentence(error_of([] { parse("1234567"); }), {"'x.safetensors'", "7 bytes"});
  std::string good = safetensors_bytes({{"a", "F32", "[2]", f32_bytes({1, 2})}});
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_THROW(parse(good.substr(0, length)), Error) << "truncated to " << length;
  std::string longer = good;
  longer[0] = static_cast<char>(longer[0] + 20);  // beyond the end of the file
  expect_sentence(error_of([&] { parse(longer); }), {"'x.safetensors'", "truncated"});
  std::string huge = good;
  huge[7] = '\x7f';  // 2^62 bytes
  expect_sentence(error_of([&] { parse(huge); }), {"'x.safetensors'", "100000000"});
  huge[7] = '\xff';  // a length that would wrap around when added to
  expect_sentence(error_of([&] { parse(huge); }), {"'x.safetensors'", "100000000"});
  expect_sentence(error_of([&] { parse(good + "x"); }), {"'x.safetensors'", "last 1 bytes"});
}

TEST(Safetensors, NamesAPointerOfGitLfs) {
  expect_sentence(error_of([] { parse("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 5\n"); }),
                  {"'x.safetensors' is a Git LFS pointer, not the weights; run git lfs pull"});
}

TEST(Safetensors, RefusesHeadersThatAreNotStrictJson) {
  std::string deep(100000, '[');
  for (const std::string& header :
       {std::string("[]"), std::string("null"), std::string(" {}"), std::string("{\"a\":"), std::string("{} x"),
        std::string("{\"a\":1,}"), std::string("{\"\xff\":1}"), std::string("{\"a\":NaN}"), std::string(1, '\0'),
        std::string("{}\0", 3), "{\"a\":" + deep + "}", std::string()}) {
    EXPECT_THROW(parse(safetensors_bytes(header, "")), Error) << header.substr(0, 40);
  }
  expect_sentence(error_of([] {
                    parse(
                        safetensors_bytes("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                          "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
                                          "xy"));
                  }),
                  {"'x.safetensors'", "'a'", "twice"});
}

TEST(Safetensors, RefusesMetadataThatIsNotStrings) {
  for (const char* metadata : {"1", "[]", "{\"a\":1}", "{\"a\":null}", "{\"a\":{\"b\":\"c\"}}", "\"x\""}) {
    std::string bytes = safetensors_bytes(std::string("{\"__metadata__\":") + metadata + "}", "");
    expect_sentence(error_of([&] { parse(bytes); }), {"'x.safetensors'", "__metadata__"});
  }
}

TEST(Safetensors, RefusesUnknownDTypes) {
  for (const char* dtype : {"F128", "f32", "float32", "U16", "", "F4"}) {
    std::string entry = std::string("{\"dtype\":\"") + dtype + "\",\"shape\":[1],\"data_offsets\":[0,4]}";
    expect_sentence(error_of([&] { parse(one_tensor(entry, 4)); }), {"'x.safetensors'", "'a'", dtype});
  }
}

TEST(Safetensors, RefusesEntriesThatAreIncompleteOrOfWrongTypes) {
  for (const char* entry : {"1",
                            "[]",
                            "null",
                            "\"F32\"",
                            "{}",
                            "{\"shape\":[1],\"data_offsets\":[0,4]}",
                            "{\"dtype\":\"F32\",\"data_offsets\":[0,4]}",
                            "{\"dtype\":\"F32\",\"shape\":[1]}",
                            "{\"dtype\":4,\"shape\":[1],\"data_offsets\":[0,4]}",
                            "{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}",
                            "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":4}",
                            "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}",
                            "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}",
                            "{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}",
                            "{\"dtype\":\"F32\",\"shape\":[\"1\"],\"data_offsets\":[0,4]}",
                            "{\"dtype\":\"F32\",\"shape\":[true],\"data_offsets\":[0,4]}",
                            "{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}",
                            "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}",
                            "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"stride\":[1]}",
                            "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}",
                            "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}",
                            "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,18446744073709551616]}",
                            "{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,18446744073709551615]}",
                            "{\"dtype\":\"F32\",\"shape\":[18446744073709551615],\"data_offsets\":[0,4]}",
                            "{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1],\"data_offsets\":[0,4]}"}) {
    expect_sentence(error_of([&] { parse(one_tensor(entry, 4)); }), {"'x.safetensors'", "'a'"});
  }
}

TEST(Safetensors, RefusesShapesThatDoNotMatchTheirBytes) {
  auto entry = [](const char* shape, const char* offsets) {
    return std::string("{\"dtype\":\"F32\",\"shape\":") + shape + ",\"data_offsets\":" + offsets + "}";
  };
  expect_sentence(error_of([&] { parse(one_tensor(entry("[2]", "[0,4]"), 4)); }), {"'a'", "8 bytes", "span 4"});
  expect_sentence(error_of([&] { parse(one_tensor(entry("[]", "[0,8]"), 8)); }), {"'a'", "4 bytes", "span 8"});
  expect_sentence(error_of([&] { parse(one_tensor(entry("[0]", "[0,4]"), 4)); }), {"'a'", "0 bytes"});
  expect_sentence(error_of([&] { parse(one_tensor(entry("[2]", "[0,8]"), 7)); }), {"'a'", "byte 8", "7 bytes"});
  // Products that wrap around to the right size: 2^62 * 4 floats is 0 modulo 2^64, and so is the last one's stride.
  for (const char* shape : {"[4611686018427387904,4]", "[4611686018427387904]", "[4294967296,4294967296]",
                            "[3037000500,3037000500]", "[0,4611686018427387904,4611686018427387904]"}) {
    expect_sentence(error_of([&] { parse(one_tensor(entry(shape, "[0,0]"), 0)); }), {"'a'", "too large"});
  }
}

TEST(Safetensors, RefusesOverlapsAndHoles) {
  auto two = [](const char* a, const char* b, size_t data_bytes) {
    return safetensors_bytes(std::string("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":") + a +
                                 "},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + b + "}}",
                             std::string(data_bytes, '\0'));
  };
  EXPECT_EQ(parse(two("[4,8]", "[0,4]", 8)).size(), 2u);
  expect_sentence(error_of([&] { parse(two("[0,4]", "[3,7]", 7)); }), {"'a'", "'b'", "overlap"});
  expect_sentence(error_of([&] { parse(two("[0,4]", "[0,4]", 4)); }), {"'a'", "'b'", "overlap"});
  expect_sentence(error_of([&] { parse(two("[0,4]", "[5,9]", 9)); }), {"1 bytes", "'b'"});
  expect_sentence(error_of([&] { parse(two("[1,5]", "[5,9]", 9)); }), {"1 bytes", "'a'"});
  expect_sentence(error_of([&] { parse(two("[0,4]", "[4,8]", 10)); }), {"last 2 bytes"});
}

TEST(Safetensors, ErrorsStayOneShortLineWhateverANameHolds) {
  std::string name(1000, 'n');
  name += "\\n\\u0000";
  std::string header = "{\"a\\n\\t" + name + "\":1}";
  std::string sentence = error_of([&] { parse(safetensors_bytes(header, "")); });
  expect_sentence(sentence, {"nnn"});
  EXPECT_LT(sentence.size(), 400u);
}

TEST(Safetensors, RefusesWhatIsNotAFile) {
  TempDirectory dir;
  expect_sentence(error_of([&] { SafetensorsFile::open(dir.path() + "/none"); }), {"/none", "No such file"});
  expect_sentence(error_of([&] { SafetensorsFile::open(dir.path()); }), {"not a plain file"});
  expect_sentence(error_of([&] { SafetensorsFile::open(dir.write("empty", "")); }), {"/empty", "0 bytes"});
  ASSERT_EQ(mkfifo((dir.path() + "/pipe").c_str(), 0600), 0);
  expect_sentence(error_of([&] { SafetensorsFile::open(dir.path() + "/pipe"); }), {"not a plain file"});
}

}  // namespace
}  // namespace fk
