// Results of one kernel that read what an earlier result of the same row stored: the loops give what the definitions
// give, whichever items of the row are read, and share a nest where the read item is the one that is being computed.
#include "compiler/codegen/loop_nest.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "candidate/compile.h"
#include "compiler/codegen/region_source.h"
#include "core/error.h"
#include "ops/algebra/evaluate.h"
#include "tests/models/temp_directory.h"

namespace fk {
namespace {

using algebra::Expr;
using algebra::Extents;

constexpr int64_t kRows = 3, kManyRows = kVaryingExtent + 3, kItems = 4, kLength = 8;

struct Reader {
  const char* name;
  Expr (*of)(const Expr& r);  // r [rows, kItems, kLength]
  size_t nests;               // of the kernel
};

Expr reversed(const Expr& r, int axis) {
  algebra::IndexMap map = algebra::identity_map(3);
  const auto d = static_cast<size_t>(axis);
  map.start[d] = r.size(axis) - 1;
  map.factors[d][d] = -1;
  return view(r, map, r.shape());
}
Expr item(const Expr& r, int64_t i) { return broadcast(slice(r, 1, i, 1), r.shape()); }

const Reader kReaders[] = {
    {"same_item", [](const Expr& r) { return r + 1; }, 1},
    {"sum_of_item", [](const Expr& r) { return r / sum(abs(r), 2); }, 1},
    {"first_half_of_item", [](const Expr& r) { return slice(r, 2, 0, kLength / 2) * 3; }, 1},
    {"one_element_of_item", [](const Expr& r) { return r - slice(r, 2, 5, 1); }, 1},
    {"reversed_in_item", [](const Expr& r) { return r - reversed(r, 2); }, 2},
    {"reversed_items", [](const Expr& r) { return r - reversed(r, 1); }, 2},
    {"last_item", [](const Expr& r) { return r * item(r, kItems - 1); }, 2},
    {"first_item", [](const Expr& r) { return r * item(r, 0); }, 2},
    {"slow_function_of_last_item", [](const Expr& r) { return r * exp(item(r, kItems - 1)); }, 2},
    {"sum_of_items", [](const Expr& r) { return r - sum(r, 1); }, 2},
    {"flat_rows",
     [](const Expr& r) {
       return reshape(r, {r.size(0), kItems * kLength}) * 2;
     },
     2},
    {"other_items",
     [](const Expr& r) {
       return reshape(r, {r.size(0), kItems / 2, 2 * kLength}) * 2;
     },
     2},
    {"shifted_in_flat_row",
     [](const Expr& r) {
       const Expr flat = reshape(r, {r.size(0), kItems * kLength});
       return reshape(slice(flat, 1, 4, (kItems - 1) * kLength), {r.size(0), kItems - 1, kLength}) * 2;
     },
     2},
};

TEST(LoopNests, ACallAloneDoesNotReadItsOwnResult) {
  const Expr a = algebra::input("a", DType::kF32, {kManyRows, kItems, kLength}),
             s = algebra::input("s", DType::kF32, {kManyRows, kItems, kLength});
  EXPECT_EQ(lower_to_loops({{"s", a * 2}, {"y", reversed(s, 1)}}).refusal, "it is updated in place");
}

// The kernel's two results, the second of which reads the first, as it stores them: of kRows rows.
struct TwoResults {
  explicit TwoResults(const Reader& reader, bool local) {
    auto of = [&](int64_t rows) {
      const Expr in = algebra::input("x", DType::kF32, {rows, kItems, kLength});
      return std::vector<algebra::NamedExpr>{
          {"r", in * in + 0.25}, {"y", reader.of(algebra::input("r", DType::kF32, {rows, kItems, kLength}))}};
    };
    loops = lower_to_row_loops(of(kManyRows), local ? std::set<std::string>{"r"} : std::set<std::string>());
    text = {.name = fmt::format("two_results_{}_{}", reader.name, local), .comment = reader.name, .names = {"x", "y"}};
    if (!local) text.names.emplace_back("r");
    const std::vector<algebra::NamedExpr> few = of(kRows);
    auto numbers = [&](const algebra::Head& head) -> algebra::Values {
      if (head.name == "r") return first;
      auto values = std::make_shared<std::vector<double>>();
      for (int64_t i = 0; i < kRows * kItems * kLength; ++i)
        values->push_back(static_cast<double>(i * 37 % 64 - 20) / 16);  // exact, and so are their squares
      return values;
    };
    x = numbers(algebra::Head{});
    first = algebra::evaluate({few[0].expr}, {numbers})[0];
    second = algebra::evaluate({few[1].expr}, {numbers})[0];
    shape_of_second = few[1].expr.shape();
  }

  LoopProgram loops;
  RegionText text;
  algebra::Values x, first, second;
  Extents shape_of_second;
};

// Rows in memory.
struct Rows {
  Rows(const Extents& shape, float value) : sizes(shape), strides(shape.size(), 1) {
    for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
    numbers.assign(static_cast<size_t>(algebra::count_elements(shape)), value);
  }
  RegionArray array() { return {numbers.data(), sizes.data(), strides.data()}; }

  Extents sizes, strides;
  std::vector<float> numbers;
};

TEST(LoopNests, ResultsReadWhatEarlierOnesHaveStored) {
  std::vector<TwoResults> all;
  for (const Reader& reader : kReaders)
    for (bool local : {false, true}) {
      all.emplace_back(reader, local);
      ASSERT_EQ(all.back().loops.refusal, "") << reader.name;
      EXPECT_EQ(all.back().loops.nests.size(), reader.nests) << reader.name;
    }
  std::vector<RegionText> texts;
  for (TwoResults& two : all) {
    two.text.loops = &two.loops;
    texts.push_back(two.text);
  }
  const TempDirectory folder;
  const std::string path = folder.path() + "/two_results.cpp";
  std::ofstream(path) << region_source(texts);
  const CompileResult built = compile_candidate(
      {nullptr, path},
      {.cxxflags = {"-O1"}, .cache_folder = folder.path(), .limit_ms = 300'000, .without_operator = true});
  ASSERT_FALSE(built.failure) << built.log;
  void* library = dlopen(built.so_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  for (const TwoResults& two : all) {
    SCOPED_TRACE(two.text.name);
    auto* kernel = reinterpret_cast<RegionFunction>(dlsym(library, two.text.name.c_str()));
    ASSERT_NE(kernel, nullptr);
    Rows x({kRows, kItems, kLength}, 0), y(two.shape_of_second, -1), r({kRows, kItems, kLength}, -1);
    for (size_t i = 0; i < x.numbers.size(); ++i) x.numbers[i] = static_cast<float>((*two.x)[i]);
    const RegionArray arrays[] = {x.array(), y.array(), r.array()};
    kernel(arrays, 0, kRows);
    ASSERT_EQ(y.numbers.size(), two.second->size());
    for (size_t i = 0; i < y.numbers.size(); ++i)
      ASSERT_NEAR(y.numbers[i], (*two.second)[i], 1e-5 * std::abs((*two.second)[i])) << i;
    if (two.text.names.size() == 2) continue;
    for (size_t i = 0; i < r.numbers.size(); ++i) ASSERT_EQ(r.numbers[i], (*two.first)[i]) << i;
  }
}

}  // namespace
}  // namespace fk
