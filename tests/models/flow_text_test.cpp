// The reader of catalog.yaml says what a reader of all of YAML says, and refuses what it cannot read.
#include "models/flow_text.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <fstream>
#include <iterator>
#include <string>

#include "core/json.h"
#include "tests/models/error_text.h"

namespace fk {
namespace {

Json value_of(const YAML::Node& node) {
  if (node.IsNull()) return nullptr;
  Json result;
  if (node.IsSequence()) {
    result = Json::array();
    for (const YAML::Node& item : node) result.push_back(value_of(item));
  } else if (node.IsMap()) {
    result = Json::object();
    for (const auto& item : node) result[item.first.as<std::string>()] = value_of(item.second);
  } else if (int64_t integer = 0; node.Tag() != "!" && YAML::convert<int64_t>::decode(node, integer)) {
    result = integer;
  } else if (double real = 0; node.Tag() != "!" && YAML::convert<double>::decode(node, real)) {
    result = real;
  } else if (bool flag = false; node.Tag() != "!" && YAML::convert<bool>::decode(node, flag)) {
    result = flag;
  } else {
    result = node.as<std::string>();
  }
  return result;
}

void expect_the_same(const std::string& text) {
  const std::vector<FlowEntry> found = parse_flow_entries(text);
  size_t at = 0;
  for (const auto& item : YAML::Load(text)) {
    ASSERT_LT(at, found.size());
    const FlowEntry& entry = found[at++];
    EXPECT_EQ(entry.name, item.first.as<std::string>());
    size_t field = 0;
    for (const auto& expected : item.second) {
      ASSERT_LT(field, entry.fields.size()) << entry.name;
      EXPECT_EQ(entry.fields[field].first, expected.first.as<std::string>()) << entry.name;
      const Json value = value_of(expected.second);
      EXPECT_EQ(entry.fields[field].second, value) << entry.name << ": " << entry.fields[field].first;
      EXPECT_EQ(entry.fields[field].second.type(), value.type()) << entry.name << ": " << entry.fields[field].first;
      ++field;
    }
    EXPECT_EQ(field, entry.fields.size()) << entry.name;
  }
  EXPECT_EQ(at, found.size());
  EXPECT_GT(at, 0u);
}

TEST(FlowText, ReadsTheCatalogAsYamlDoes) {
  std::ifstream file(FK_SOURCE_DIR "/src/models/catalog.yaml");
  expect_the_same(std::string(std::istreambuf_iterator<char>(file), {}));
}

TEST(FlowText, ReadsValuesAsYamlDoes) {
  expect_the_same(R"(# a comment

a.b-c/1:   {i: 3, negative: -12, real: 1.0e-5, large: 1e6, half: .5, text: a b, quoted: "5 local : 1, {x}", path: x/y-Z.1}
b: {yes: true, no: False, on: on, off: no, none: ~, empty: , null_: null, number: "7", word: "true"}
c: {list: [1, 2.5, x, [3], []], map: {x: {y: [a, {z: 1}]}, w: {}}}
d: {}
e: {infinite: inf, not: nan, long: 9223372036854775807, longer: 92233720368547758070, colon: a:b, plus: +4}
)");
}

TEST(FlowText, RefusesWhatItDoesNotRead) {
  for (const char* wrong : {"a",
                            "a:",
                            "a: 3",
                            "a: {",
                            "a: {x}",
                            "a: {x: 1",
                            "a: {x: 1}}",
                            "a: {x: 1} b",
                            "a: {x: 1,}",
                            "a: {x:1}",
                            ": {}",
                            "a: {: 1}",
                            "a: {x: [1, 2}",
                            "a: {x: \"1}",
                            "a: {x: \"a\\n\"}",
                            "a: {x: 'one'}",
                            "a: {x: &y 1}",
                            "a: {x: *y}",
                            "a: {x: !t 1}",
                            "a: {x: b: c}",
                            "a: {x: {y: 1, y: 2}}",
                            "a: {x: 1 # more}",
                            "a: [1]",
                            "a: {\"x\": 1}",
                            "  a: {x: 1",
                            "a: {x: - 1}",
                            "a: {x: [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}"}) {
    const std::string said = error_of([&] { parse_flow_entries(std::string("# first\n") + wrong); });
    EXPECT_NE(said.find("line 2"), std::string::npos) << wrong << ": " << said;
  }
}

}  // namespace
}  // namespace fk
