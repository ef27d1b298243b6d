// Checkpoint: one file or shards, and an index that must match them.
#include "models/checkpoint.h"

#include <gtest/gtest.h>

#include "tests/models/error_text.h"
#include "tests/models/safetensors_bytes.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

constexpr const char* kIndex = "model.safetensors.index.json";

std::string shard(const std::vector<std::string>& names) {
  std::vector<TensorBytes> tensors;
  for (const std::string& name : names)
    tensors.push_back({name, "F32", "[1]", f32_bytes({static_cast<float>(name.back())})});
  return safetensors_bytes(tensors);
}

TEST(Checkpoint, ReadsASingleFile) {
  TempDirectory dir;
  dir.write("model.safetensors", shard({"b", "a"}));
  Checkpoint checkpoint = Checkpoint::open(dir.path());
  EXPECT_EQ(checkpoint.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(get(checkpoint.find("a").value(), 0), 'a');
  EXPECT_FALSE(checkpoint.find("c"));
}

TEST(Checkpoint, ReadsShardsAndStaysGoodWhenMoved) {
  TempDirectory dir;
  dir.write("one.safetensors", shard({"a", "c"}));
  dir.write("two.safetensors", shard({"b"}));
  dir.write(kIndex, R"({"metadata":{"total_size":12},
                       "weight_map":{"a":"one.safetensors","b":"two.safetensors","c":"one.safetensors"}})");
  Checkpoint opened = Checkpoint::open(dir.path());
  Checkpoint checkpoint = std::move(opened);
  for (std::string name : {"a", "b", "c"}) EXPECT_EQ(get(checkpoint.find(name).value(), 0), name[0]);
  checkpoint.release("a");
  EXPECT_EQ(get(checkpoint.find("a").value(), 0), 'a');
}

TEST(Checkpoint, RefusesAnIndexAndShardsThatDisagree) {
  TempDirectory dir;
  dir.write("one.safetensors", shard({"a"}));
  dir.write("two.safetensors", shard({"b"}));
  auto open_with = [&](const char* weight_map) {
    dir.write(kIndex, std::string("{\"weight_map\":") + weight_map + "}");
    return error_of([&] { Checkpoint::open(dir.path()); });
  };
  expect_sentence(open_with(R"({"a":"one.safetensors","b":"two.safetensors","c":"two.safetensors"})"),
                  {"index.json", "'c'", "'two.safetensors'"});
  expect_sentence(open_with(R"({"a":"one.safetensors","x":"two.safetensors"})"),
                  {"two.safetensors", "'b'", "index.json"});
  expect_sentence(open_with(R"({"a":"two.safetensors","b":"one.safetensors"})"), {"one.safetensors", "'a'"});
  expect_sentence(open_with(R"({"a":"one.safetensors","b":"three.safetensors"})"),
                  {"three.safetensors", "No such file"});
}

TEST(Checkpoint, RefusesShardNamesThatLeaveTheDirectory) {
  TempDirectory dir;
  dir.write("other/one.safetensors", shard({"a"}));
  dir.write("model/here", "");
  for (const char* name : {"../other/one.safetensors", "/etc/passwd", "..", ".", "", "sub/one.safetensors",
                           "..\\\\one.safetensors", "one\\u0000.safetensors"}) {
    dir.write("model/model.safetensors.index.json", std::string("{\"weight_map\":{\"a\":\"") + name + "\"}}");
    expect_sentence(error_of([&] { Checkpoint::open(dir.path() + "/model"); }), {"index.json", "'a'", "not the name"});
  }
}

TEST(Checkpoint, RefusesAnUnusableIndex) {
  TempDirectory dir;
  for (const char* index : {"[]", "{}", "{\"weight_map\":[]}", "{\"weight_map\":{}}", "{\"weight_map\":{\"a\":1}}",
                            "{\"weight_map\":{\"a\":\"x\",\"a\":\"x\"}}", "{\"weight_map\":", ""}) {
    dir.write(kIndex, index);
    expect_sentence(error_of([&] { Checkpoint::open(dir.path()); }), {"index.json"});
  }
}

TEST(Checkpoint, SaysWhatADirectoryWithoutWeightsLacks) {
  TempDirectory dir;
  expect_sentence(error_of([&] { Checkpoint::open(dir.path()); }),
                  {"model.safetensors", "model.safetensors.index.json", "--load-format dummy"});
}

// A lookup per tensor must not search: 20,000 tensors are one mixture of experts.
TEST(Checkpoint, OpensManyTensorsWithoutQuadraticWork) {
  TempDirectory dir;
  std::vector<TensorBytes> tensors;
  std::string weight_map;
  for (int i = 0; i < 20000; ++i) {
    std::string name = "model.layers.experts.weight." + std::to_string(i);
    weight_map += (i == 0 ? "\"" : ",\"") + name + "\":\"one.safetensors\"";
    tensors.push_back({std::move(name), "U8", "[1]", "x"});
  }
  dir.write("one.safetensors", safetensors_bytes(tensors));
  dir.write(kIndex, "{\"weight_map\":{" + weight_map + "}}");
  EXPECT_EQ(Checkpoint::open(dir.path()).names().size(), 20000u);
}

}  // namespace
}  // namespace fk
