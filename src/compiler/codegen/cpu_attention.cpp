#include "compiler/codegen/cpu_attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/codegen/c_text.h"
#include "compiler/codegen/cpu_attention_prelude.h"
#include "compiler/codegen/element_text.h"

namespace fk {
namespace {

constexpr int64_t kSplitKeys = 256;  // of a row: a few microseconds of work

// As AttentionCall::kTile in the text.
int64_t tokens_read_together(const AttentionProgram& p) {
  const int64_t rows = std::max(p.query_size, p.value_size) > 256 ? 16 : 32;
  return std::max<int64_t>(1, rows / p.group);
}

std::string functions_text(const AttentionProgram& p) {
  const std::string_view type = element_name(p.dtype);
  std::string text = "  auto seen_by = [&](int64_t l0) {\n";
  for (const std::string& line : p.lines) text += fmt::format("    {}\n", line);
  text += fmt::format("    return SeenKeys{{{}, {}, {}}};\n  }};\n", p.first_seen(), p.last_seen(), p.source.empty() ? "0" : p.source);
  text += fmt::format("  auto q_row = [=](int64_t l0, int64_t head, int64_t g) -> const {}* {{ return {}; }};\n", type,
                      p.q);
  for (const auto& [name, row] : {std::pair("k_row", &p.k), std::pair("v_row", &p.v)})
    text += fmt::format("  auto {} = [=](int64_t source, int64_t head, int64_t key) -> const {}* {{ return {}; }};\n",
                        name, type, *row);
  text += fmt::format("  auto score = [](float dot) -> float {{ return {}; }};\n", p.score);
  return text + fmt::format("  auto sink_of = [=](int64_t head, int64_t g) -> float {{ return {}; }};\n",
                            p.sink.empty() ? "-INFINITY" : p.sink);
}

}  // namespace

int64_t most_cpu_attention_items(std::span<const CpuSeenKeys> seen) {
  int64_t most = 0;  // an item for each part of a row's keys, and one that joins them
  for (const CpuSeenKeys& s : seen) most += 2 + std::max<int64_t>(0, s.last - s.first) / kSplitKeys;
  return most;
}

CpuAttentionWork cpu_attention_work(const AttentionProgram& program, std::span<const CpuSeenKeys> seen,
                                    std::span<CpuAttentionItem> memory) {
  // Items from the front on, joins from the back.
  size_t items = 0, joins = memory.size();
  int64_t kept = 0;
  const int64_t tokens = tokens_read_together(program), rows = static_cast<int64_t>(seen.size());
  auto add_row = [&](int64_t row) {
    const CpuSeenKeys& mine = seen[static_cast<size_t>(row)];
    if (mine.last - mine.first <= kSplitKeys) {
      memory[items++] = {row, 1, mine.first, std::max(mine.first, mine.last), -1};
      return;
    }
    const int64_t begin = kept;
    for (int64_t key = mine.first; key < mine.last; key += kSplitKeys)
      memory[items++] = {row, 1, key, std::min(key + kSplitKeys, mine.last), kept++};
    memory[--joins] = {row, 1, begin, kept, -1};
  };
  for (int64_t row = 0; row < rows;) {
    // Rows that follow, as long as most of the keys that the tile reads are seen by each of its rows.
    constexpr int64_t kFewKeys = 16;
    const CpuSeenKeys& lead = seen[static_cast<size_t>(row)];
    int64_t begin = lead.first, end = lead.last, next = row + 1, sum = end - begin;
    for (; begin < end && next < rows && next < row + tokens; ++next) {
      const CpuSeenKeys& more = seen[static_cast<size_t>(next)];
      if (more.source != lead.source || more.first >= more.last) break;
      const int64_t from = std::min(begin, more.first), to = std::max(end, more.last), count = next - row + 1;
      if ((to - from) * count > 2 * (sum + more.last - more.first) + kFewKeys * count) break;
      begin = from, end = to, sum += more.last - more.first;
    }
    if (next == row + 1)
      add_row(row);
    else
      memory[items++] = {row, next - row, begin, end, -1};
    row = next;
  }
  // Later rows see more keys: they begin first.
  std::reverse(memory.begin(), memory.begin() + static_cast<std::ptrdiff_t>(items));
  return {memory.first(items), memory.subspan(joins), kept};
}

int64_t cpu_attention_kept(const AttentionProgram& p) { return p.kv_heads * p.group * (p.value_size + 2); }

std::string cpu_attention_body(const RegionText& region) {
  const AttentionProgram& p = *region.attention;
  const std::string functions = functions_text(p);
  const size_t more = region.names.size();
  std::string text = "(const Array* arrays, int64_t begin, int64_t end) {\n";
  for (size_t k = 0; k < more; ++k) {
    const std::string& name = region.names[k];
    auto use = p.arrays.find(name);
    if (use == p.arrays.end()) continue;
    const std::string type = fmt::format("{}{}*", use->second.written ? "" : "const ", element_name(use->second.dtype));
    if (use->second.written || has_word(functions, name + "_p"))
      text += fmt::format("  {0} const {1}_p = static_cast<{0}>(arrays[{2}].data);\n", type, name, k);
    for (size_t d = 0; d < use->second.rank; ++d) {
      if (has_word(functions, fmt::format("{}_s{}", name, d)))
        text += fmt::format("  const int64_t {0}_s{1} = arrays[{2}].strides[{1}];\n", name, d, k);
      if (has_word(functions, fmt::format("{}_n{}", name, d)))
        text += fmt::format("  const int64_t {0}_n{1} = arrays[{2}].sizes[{1}];\n", name, d, k);
    }
  }
  text += functions;
  text += fmt::format(
      "  SeenKeys* const seen = static_cast<SeenKeys*>(arrays[{0}].data);\n"
      "  const int64_t phase = arrays[{0}].sizes[0];\n"
      "  if (phase == {1}) {{\n"
      "    for (int64_t l0 = begin; l0 < end; ++l0) seen[l0] = seen_by(l0);\n"
      "    return;\n  }}\n",
      more, static_cast<int64_t>(CpuAttentionPhase::kSee));
  text += fmt::format(
      "  const AttentionCall<{0}, {1}, {2}, {3}, {4}, decltype(q_row), decltype(k_row), decltype(v_row), "
      "decltype(score), decltype(sink_of)> call{{\n"
      "      {5}_p, seen, static_cast<float*>(arrays[{6}].data), q_row, k_row, v_row, score, sink_of}};\n"
      "  const AttentionItem* const items = static_cast<const AttentionItem*>(arrays[{7}].data);\n"
      "  const int64_t count = arrays[{7}].sizes[0];\n"
      "  for (int64_t i = begin; i < end; ++i) {{\n"
      "    if (phase == {8})\n      call.attend(items[i % count], static_cast<int>(i / count));\n"
      "    else\n      call.join(items[i % count], static_cast<int>(i / count));\n  }}\n}}\n",
      element_name(p.dtype), p.kv_heads, p.group, p.query_size, p.value_size, p.out, more + 2, more + 1,
      static_cast<int64_t>(CpuAttentionPhase::kAttend));
  return text;
}

std::string cpu_attention_version() { return std::string(kCpuAttention); }

}  // namespace fk
