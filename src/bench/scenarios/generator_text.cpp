#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cmath>

#include "bench/scenarios/scenario_file.h"

namespace fk {
namespace {

struct Spelling {
  Generator::Kind kind;
  std::string_view name;
  int numbers;  // in brackets behind the name
};

using Kind = Generator::Kind;
constexpr Spelling kSpellings[] = {{Kind::kNormal, "normal", 2},
                                   {Kind::kUniform, "uniform", 2},
                                   {Kind::kIntegers, "integers", 2},
                                   {Kind::kConstant, "constant", 1},
                                   {Kind::kPositions, "positions", 0},
                                   {Kind::kLogitsIndices, "logits_indices", 0},
                                   {Kind::kCuSeqlensQ, "cu_seqlens_q", 0},
                                   {Kind::kCuSeqlensK, "cu_seqlens_k", 0},
                                   {Kind::kSeqLens, "seq_lens", 0},
                                   {Kind::kBlockTable, "block_table", 0},
                                   {Kind::kSlotMapping, "slot_mapping", 0},
                                   {Kind::kStateSlots, "state_slots", 0},
                                   {Kind::kTopkIds, "topk_ids", 3},
                                   {Kind::kSortedIds, "sorted_ids", 3},
                                   {Kind::kExpertOffsets, "expert_offsets", 3}};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool parse_number(std::string_view text, double& number) {
  text = trimmed(text);
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_whole(double x) { return x == std::floor(x); }

// A file may only state another skew: experts and choices are those of the operator, which InputSpec's shape checks.
bool valid_routing(const Generator& g) {
  constexpr double kMostExperts = 1 << 20, kMostSkew = 100;
  return is_whole(g.a) && is_whole(g.b) && g.b >= 1 && g.a >= g.b && g.a <= kMostExperts && g.c >= 0 &&
         g.c <= kMostSkew;
}

}  // namespace

std::string generator_text(const Generator& g) {
  for (const Spelling& s : kSpellings) {
    if (s.kind != g.kind) continue;
    if (s.numbers == 0) return std::string(s.name);
    if (s.numbers == 3) return fmt::format("{}({}, {}, {})", s.name, g.a, g.b, g.c);
    return s.numbers == 1 ? fmt::format("{}({})", s.name, g.a) : fmt::format("{}({}, {})", s.name, g.a, g.b);
  }
  return "unknown";
}

std::optional<Generator> generator_from_text(std::string_view text) {
  size_t open = text.find('(');
  std::string_view name = trimmed(text.substr(0, open));
  for (const Spelling& s : kSpellings) {
    if (s.name != name) continue;
    Generator g{s.kind, 0, 0};
    if (s.numbers == 0) return open == std::string_view::npos ? std::optional(g) : std::nullopt;
    if (open == std::string_view::npos || text.back() != ')') return std::nullopt;
    std::string_view inside = text.substr(open + 1, text.size() - open - 2);
    double* numbers[] = {&g.a, &g.b, &g.c};
    for (int i = 0; i < s.numbers; ++i) {
      size_t comma = inside.find(',');
      if ((comma == std::string_view::npos) != (i + 1 == s.numbers)) return std::nullopt;
      if (!parse_number(inside.substr(0, comma), *numbers[i])) return std::nullopt;
      inside.remove_prefix(comma == std::string_view::npos ? inside.size() : comma + 1);
    }
    if (g.kind == Kind::kIntegers && !(g.b > g.a)) return std::nullopt;
    if (s.numbers == 3 && !valid_routing(g)) return std::nullopt;
    return g;
  }
  return std::nullopt;
}

}  // namespace fk
