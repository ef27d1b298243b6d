#include "compiler/codegen/region_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/codegen/c_text.h"
#include "compiler/codegen/cpu_attention.h"
#include "compiler/codegen/cpu_attention_prelude.h"
#include "compiler/codegen/statement_text.h"

namespace fk {
namespace {

constexpr std::string_view kStoreRounded =
    R"([[maybe_unused]] inline void store_rounded(fk::bf16* to, const float* from) {
#ifdef __AVX512BF16__
  // Not by the functions of <immintrin.h>: to compile that header takes as long as most kernels.
  float low __attribute__((vector_size(64))), high __attribute__((vector_size(64)));
  __builtin_memcpy(&low, from, 64);
  __builtin_memcpy(&high, from + 16, 64);
  __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(low) : "v"(high), "v"(low));
  __builtin_memcpy(to, &low, 64);
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
  for (int k = 0; k < 32; k += 8) {
    bfloat16x8_t eight = vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(vld1q_f32(from + k)), vld1q_f32(from + k + 4));
    __builtin_memcpy(to + k, &eight, 16);
  }
#else
  for (int k = 0; k < 32; ++k) to[k] = from[k];
#endif
}
)";

std::string indented(size_t depth) { return std::string(2 * depth, ' '); }

// Whether an index is a constant of the loop plus i.
bool ends_with_i(const std::string& index) { return index == "i" || index.ends_with(" + i"); }
std::string with_first(const std::string& index, const std::string& first) {
  return index.substr(0, index.size() - 1) + first;
}

// Stores that can share one loop: of as many elements, and none reads what another one has written.
bool can_share(const std::vector<const LoopStatement*>& group, const LoopStatement& next, const LoopProgram& loops) {
  if (group.empty()) return true;
  if (next.count != group[0]->count || next.guard != group[0]->guard) return false;
  return std::none_of(group.begin(), group.end(), [&](const LoopStatement* s) {
    return next.value.find(array_of(*s, loops) + "[") != next.value.npos;
  });
}

// One loop for all of them. Where floats are rounded to bf16, kChunk of them at a time: an instruction does that.
std::string stores_text(const std::vector<const LoopStatement*>& group, const LoopProgram& loops, std::string indent) {
  constexpr int64_t kChunk = 32;
  std::string text;
  const LoopStatement& first = *group[0];
  if (!first.guard.empty()) {
    text += fmt::format("{}if ({}) {{\n", indent, first.guard);
    indent += "  ";
  }
  auto rounds = [](const LoopStatement* s) { return s->dtype == DType::kBF16 && !s->moved && ends_with_i(s->index); };
  int64_t start = 0;
  if (first.count >= kChunk && std::any_of(group.begin(), group.end(), rounds)) {
    start = first.count / kChunk * kChunk;
    text += fmt::format("{}for (int64_t first = 0; first < {}; first += {}) {{\n", indent, start, kChunk);
    for (size_t k = 0; k < group.size(); ++k)
      if (rounds(group[k])) text += fmt::format("{}  alignas(64) float c{}[{}];\n", indent, k, kChunk);
    text += fmt::format("{}  for (int k = 0; k < {}; ++k) {{\n{}    const int64_t i = first + k;\n", indent, kChunk,
                        indent);
    for (size_t k = 0; k < group.size(); ++k)
      text += fmt::format("{}    {}\n", indent,
                          rounds(group[k]) ? fmt::format("c{}[k] = {};", k, group[k]->value)
                                           : store_text(*group[k], array_of(*group[k], loops)));
    text += indent + "  }\n";
    for (size_t k = 0; k < group.size(); ++k)
      if (rounds(group[k]))
        text += fmt::format("{}  store_rounded({} + {}, c{});\n", indent, array_of(*group[k], loops),
                            with_first(group[k]->index, "first"), k);
    text += indent + "}\n";
  }
  if (start < first.count) {
    text += first.count == 1 ? fmt::format("{}{{\n{}  [[maybe_unused]] constexpr int64_t i = 0;\n", indent, indent)
                             : fmt::format("{}for (int64_t i = {}; i < {}; ++i) {{\n", indent, start, first.count);
    for (const LoopStatement* s : group) text += fmt::format("{}  {}\n", indent, store_text(*s, array_of(*s, loops)));
    text += indent + "}\n";
  }
  if (!first.guard.empty()) text += indent.substr(2) + "}\n";
  return text;
}

std::string nest_text(const LoopNest& nest, const LoopProgram& loops) {
  std::string text;
  for (const LoopStatement& s : nest.statements)
    if (s.of_row) text += statement_text(s, array_of(s, loops), indented(2));
  size_t depth = 2;
  for (size_t d = 1; d < nest.leads.size(); ++d, ++depth)
    text += fmt::format("{0}for (int64_t l{1} = 0; l{1} < {2}; ++l{1}) {{\n", indented(depth), d, nest.leads[d]);
  // A block of its own, so that two nests may use one name.
  if (nest.leads.size() == 1) text += indented(depth++) + "{\n";
  std::vector<const LoopStatement*> group;
  auto finish_group = [&] {
    if (!group.empty()) text += stores_text(group, loops, indented(depth));
    group.clear();
  };
  for (const LoopStatement& s : nest.statements) {
    if (s.of_row) continue;
    const bool store = s.kind == LoopStatement::Kind::kStore;
    if (!store || !can_share(group, s, loops)) finish_group();
    if (store)
      group.push_back(&s);
    else
      text += statement_text(s, array_of(s, loops), indented(depth));
  }
  finish_group();
  while (depth > 2) text += indented(--depth) + "}\n";
  return text;
}

}  // namespace

int64_t row_work(const LoopProgram& loops) {
  int64_t work = 0;
  for (const LoopNest& nest : loops.nests) {
    int64_t items = 1;
    for (size_t d = 1; d < nest.leads.size(); ++d) items *= nest.leads[d];
    for (const LoopStatement& s : nest.statements) work += s.count * (s.of_row ? 1 : items);
  }
  return work;
}

bool shares_memory(const RegionText& region, const std::string& name) {
  return std::any_of(region.updated.begin(), region.updated.end(), [&](const auto& pair) {
    return region.loops->arrays.count(pair.second) > 0 && (pair.first == name || pair.second == name);
  });
}

std::string region_body(const RegionText& region) {
  if (region.attention != nullptr) return cpu_attention_body(region);
  const LoopProgram& loops = *region.loops;
  std::string nests, text = "(const Array* arrays, int64_t first_row, int64_t last_row) {\n";
  for (const LoopNest& nest : loops.nests) nests += nest_text(nest, loops);
  for (size_t k = 0; k < region.names.size(); ++k) {
    const std::string& name = region.names[k];
    auto use = loops.arrays.find(name);
    if (use == loops.arrays.end()) continue;
    text += fmt::format("  {0}{1}*{4} {2}_p = static_cast<{0}{1}*>(arrays[{3}].data);\n",
                        use->second.written ? "" : "const ", element_name(use->second.dtype), name, k,
                        shares_memory(region, name) ? "" : " __restrict");
    for (size_t d = 0; d < use->second.rank; ++d)
      if (nests.find(fmt::format("* {}_s{}", name, d)) != nests.npos)
        text += fmt::format("  const int64_t {0}_s{1} = arrays[{2}].strides[{1}];\n", name, d, k);
    if (nests.find(name + "_n") != nests.npos)
      text += fmt::format("  const int64_t {}_n = arrays[{}].sizes[0];\n", name, k);
  }
  text += tables_text(loops);
  text += "  for (int64_t l0 = first_row; l0 < last_row; ++l0) {\n";
  for (const auto& [name, array] : loops.locals)
    text += fmt::format("    alignas(64) {} {}[{}];\n", element_name(array.dtype), name, array.elements);
  return text + nests + "  }\n}\n";
}

std::string region_source(const std::vector<RegionText>& regions) {
  std::string kernels;
  for (const RegionText& region : regions)
    kernels += "\n" + in_comment(region.comment) + "FK_KERNEL void " + region.name + region_body(region);
  const bool attends =
      std::any_of(regions.begin(), regions.end(), [](const auto& r) { return r.attention != nullptr; });
  const std::string attention(attends ? kCpuAttention : std::string_view());
  return fmt::format(
      "// Kernels written by fastkernels: each computes several calls of a model, one row of all of them after the\n"
      "// other. Names: x inputs, y outputs, r results that exist for one row.\n"
      "#include <fastkernels/candidate.h>\n#include <math.h>\n"
      "#ifdef {}\n#include <arm_neon.h>\n#endif\n"
      "#if defined(__AVX512F__) && !defined(__clang__)\n"
      "#pragma GCC target(\"prefer-vector-width=512\")\n#endif\n\n"
      "#define FK_KERNEL extern \"C\" __attribute__((visibility(\"default\")))\n\nnamespace {{\n\n"
      "struct Array {{\n  void* data;\n  const int64_t* sizes;\n  const int64_t* strides;\n}};\n\n{}{}{}\n"
      "}}  // namespace\n{}",
      attends ? "__aarch64__" : "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC", kStoreRounded,
      functions_in(attention + kernels), attention, kernels);
}

}  // namespace fk
