#include "compiler/codegen/cuda_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/codegen/c_text.h"
#include "compiler/codegen/element_text.h"

namespace fk {
namespace {

constexpr int64_t kRowsOfTile = 16, kKeysOfTile = 16;
constexpr int64_t kBlockWarps = 4;     // of a block; as in the skeleton
constexpr int64_t kMostColumns = 256;  // sums of a warp's row: 128 registers of a thread
constexpr int64_t kColumnBlock = 64;
constexpr int64_t kMostSplits = 32;

int64_t tokens_of_tile(const AttentionProgram& program) {
  return program.one_row_a_source() ? 1 : std::max<int64_t>(1, kRowsOfTile / program.group);
}
int64_t columns_of_part(const AttentionProgram& program) {
  const int64_t all = (program.value_size + kColumnBlock - 1) / kColumnBlock * kColumnBlock;
  const int64_t parts = (all + kMostColumns - 1) / kMostColumns;
  return (all / kColumnBlock + parts - 1) / parts * kColumnBlock;
}
// Tiles of one tile of tokens.
int64_t tiles_of_tokens(const AttentionProgram& program) {
  const int64_t heads = std::min(program.group, kRowsOfTile);
  const int64_t columns = columns_of_part(program);
  return program.kv_heads * ((program.group + heads - 1) / heads) * ((program.value_size + columns - 1) / columns);
}

std::string body_text(const AttentionProgram& p) {
  const std::string_view type = element_name(p.dtype);
  std::string text = "  let_next_start();\n  wait_for_previous();\n";
  text += "  auto seen_by = [&](int64_t l0) {\n";
  for (const std::string& line : p.lines) text += fmt::format("    {}\n", line);
  text += fmt::format("    const int64_t first = {};\n", p.first_seen());
  text += fmt::format("    const int64_t last = {};\n", p.last_seen());
  text += fmt::format(
      "    return SeenKeys{{static_cast<int>(first), static_cast<int>(last), static_cast<int>({})}};\n  }};\n",
      p.source.empty() ? "0" : p.source);
  text += fmt::format("  auto q_row = [&](int64_t l0, int64_t head, int64_t g) -> const {}* {{ return {}; }};\n", type,
                      p.q);
  for (const auto& [name, row] : {std::pair("k_row", &p.k), std::pair("v_row", &p.v)})
    text += fmt::format("  auto {} = [&](int64_t source, int64_t head, int64_t key) -> const {}* {{ return {}; }};\n",
                        name, type, *row);
  text += fmt::format("  auto score = [](float dot) -> float {{ return {}; }};\n", p.score);
  text += fmt::format("  auto sink_of = [&](int64_t head, int64_t g) -> float {{ return {}; }};\n",
                      p.sink.empty() ? "-INFINITY" : p.sink);
  return text + fmt::format(
                    "  attend<{}, RowTile<{}, {}>, {}, {}, {}, {}, {}, kShare, kAligned>(rows, splits, workspace, "
                    "{}_p, seen_by, q_row, k_row, v_row, score, sink_of);\n",
                    type, p.group, tokens_of_tile(p), p.kv_heads, p.query_size, p.value_size, columns_of_part(p),
                    p.rounds_weights || p.dtype == DType::kF32, p.out);
}

std::string join_text(const AttentionProgram& p) {
  std::string text = "  let_next_start();\n  wait_for_previous();\n  auto sink_of = [&](int64_t number) -> float {\n";
  text +=
      fmt::format("    [[maybe_unused]] const int64_t head = number / {0}, g = number % {0};\n    return {1};\n  }};\n",
                  p.group, p.sink.empty() ? "-INFINITY" : p.sink);
  return text + fmt::format("  join_splits<{}, {}, {}>(rows, splits, workspace, {}_p, sink_of);\n",
                            element_name(p.dtype), p.kv_heads * p.group, p.value_size, p.out);
}

// What a text needs of the arrays, as parameters of a kernel and as arguments.
struct Passed {
  std::string parameters, arguments;
};
Passed passed_to(const RegionText& region, const AttentionProgram& p, const std::string& body) {
  Passed passed;
  auto pass = [&](const std::string& parameter, const std::string& argument) {
    passed.parameters += ", " + parameter;
    passed.arguments += ", " + argument;
  };
  for (size_t k = 0; k < region.names.size(); ++k) {
    const std::string& array = region.names[k];
    auto use = p.arrays.find(array);
    if (use == p.arrays.end()) continue;
    const std::string type = fmt::format("{}{}*", use->second.written ? "" : "const ", element_name(use->second.dtype));
    if (has_word(body, array + "_p"))
      pass(fmt::format("{} {}_p", type, array), fmt::format("static_cast<{}>(arrays[{}].data)", type, k));
    for (size_t d = 0; d < use->second.rank; ++d) {
      if (has_word(body, fmt::format("{}_s{}", array, d)))
        pass(fmt::format("int64_t {}_s{}", array, d), fmt::format("arrays[{}].strides[{}]", k, d));
      if (has_word(body, fmt::format("{}_n{}", array, d)))
        pass(fmt::format("int64_t {}_n{}", array, d), fmt::format("arrays[{}].sizes[{}]", k, d));
    }
  }
  return passed;
}

}  // namespace

AttentionCut attention_cut(const AttentionProgram& program, int64_t rows, int64_t keys, int processors) {
  AttentionCut cut;
  const int64_t tokens = tokens_of_tile(program), tiles = (rows + tokens - 1) / tokens * tiles_of_tokens(program);
  // A tile for each warp, if then every multiprocessor has a block: neighbouring tiles read the same keys.
  if (tiles >= kBlockWarps * processors) return cut;
  cut.share = kBlockWarps;
  // Blocks for two rounds of all multiprocessors, but not fewer keys than two tiles for a warp.
  const int64_t wanted = tiles == 0 ? 1 : 2 * processors / tiles;
  cut.splits = std::clamp<int64_t>(std::min(wanted, keys / (2 * kKeysOfTile * kBlockWarps)), 1, kMostSplits);
  if (cut.splits > 1) cut.workspace = cut.splits * rows * program.kv_heads * program.group * (program.value_size + 2);
  return cut;
}

AttentionTexts attention_texts(const RegionText& region, const std::string& name) {
  const AttentionProgram& p = *region.attention;
  const std::string body = body_text(p), join = join_text(p);
  const Passed to_kernel = passed_to(region, p, body), to_join = passed_to(region, p, join);
  AttentionTexts texts;
  texts.kernel = fmt::format(
      "template <bool kAligned, int kShare>\n__global__ void __launch_bounds__({}) {}_kernel(int64_t rows, int splits, "
      "float* workspace{}) {{\n{}}}\n",
      kBlockWarps * 32, name, to_kernel.parameters, body);
  texts.kernel += fmt::format(
      "__global__ void __launch_bounds__({}) {}_join(int64_t rows, int splits, const float* workspace{}) {{\n{}}}\n",
      kBlockWarps * 32, name, to_join.parameters, join);
  texts.launcher = fmt::format(
      "FK_LAUNCHER {0}(const Array* arrays, int64_t rows, int aligned, int dependent, void* stream) {{\n"
      "  const Array& space = arrays[{1}];\n"
      "  const int splits = static_cast<int>(space.sizes[0]), share = static_cast<int>(space.sizes[1]);\n"
      "  float* const workspace = static_cast<float*>(space.data);\n"
      "  const int64_t tiles = (rows + {2}) / {3} * {4};\n"
      "  const int64_t blocks = share == 1 ? (tiles + {5}) / {6} : tiles * splits;\n"
      "  auto* const kernel = share == 1 ? (aligned != 0 ? {0}_kernel<true, 1> : {0}_kernel<false, 1>)\n"
      "                                  : (aligned != 0 ? {0}_kernel<true, {6}> : {0}_kernel<false, {6}>);\n"
      "  const int status = launch(kernel, blocks, {7}, dependent, stream, rows, splits, workspace{8});\n"
      "  if (status != 0 || splits == 1) return status;\n"
      "  return launch({0}_join, (rows * {9} + {5}) / {6}, {7}, dependent, stream, rows, splits,\n"
      "                static_cast<const float*>(workspace){10});\n}}\n",
      name, region.names.size(), tokens_of_tile(p) - 1, tokens_of_tile(p), tiles_of_tokens(p), kBlockWarps - 1,
      kBlockWarps, kBlockWarps * 32, to_kernel.arguments, p.kv_heads * p.group, to_join.arguments);
  return texts;
}

}  // namespace fk
