#include "compiler/plan/attention_batch.h"

#include <algorithm>
#include <vector>

#include "compiler/plan/region_memory.h"
#include "core/rng.h"

namespace fk {
namespace {

// `all` tokens in `count` sequences, of different lengths where there are enough.
std::vector<int64_t> parts_of(int64_t all, int64_t count, Stream& stream) {
  std::vector<int64_t> parts(static_cast<size_t>(count), all / std::max<int64_t>(count, 1));
  if (count == 0) return parts;
  parts.back() += all - all / count * count;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const auto moved = static_cast<int64_t>(stream.below(i, static_cast<uint64_t>(std::max<int64_t>(parts[i], 1))));
    parts[i] -= moved;
    parts[i + 1] += moved;
  }
  return parts;
}

void set_bounds(const View& view, const std::vector<int64_t>& parts) {
  int64_t bound = 0;
  set(view, 0, 0);
  for (size_t i = 0; i < parts.size(); ++i) {
    bound += parts[i];
    set(view, static_cast<double>(bound), static_cast<int64_t>(i) + 1);
  }
}

}  // namespace

BatchSizes attention_sizes(GraphPhase phase, int64_t rows, bool timed) {
  constexpr int64_t kTimedPages = 64, kCheckedKeyTiles = 40, kFewestPages = 6, kSequences = 3;
  BatchSizes sizes = sizes_with_rows(phase, rows);
  const int64_t prompts = timed ? 1 : std::min(rows, kSequences);
  if (phase != GraphPhase::kDecode) sizes[SizeSymbol::kSequences] = sizes[SizeSymbol::kDecoding] + prompts;
  const int64_t page = sizes[SizeSymbol::kPageSize], of_prompts = rows / page + 2;
  const int64_t pages = timed ? kTimedPages : std::max(kFewestPages, kCheckedKeyTiles / rows);
  sizes[SizeSymbol::kPages] = std::max(pages, of_prompts);
  sizes[SizeSymbol::kBlocks] = sizes[SizeSymbol::kPages] * sizes[SizeSymbol::kSequences] + 2;
  return sizes;
}

bool fill_lengths(std::string_view name, const View& view, const std::function<OptView(std::string_view)>& arg,
                  uint64_t seed) {
  const OptView table = arg("block_table"), q = arg("q"), k = arg(arg("k") ? "k" : arg("key") ? "key" : "k_cache");
  const int64_t capacity = table && k ? table->size(1) * k->size(1) : 0;  // keys of a sequence in pages
  if (name == "cache_seqlens") {
    if (capacity == 0) return false;
    Stream stream(seed, "lengths");
    for (int64_t i = 0; i < view.size(0); ++i) {
      const auto some = static_cast<int64_t>(stream.below(static_cast<uint64_t>(i), static_cast<uint64_t>(capacity)));
      set(view, static_cast<double>(i == 0 ? capacity - seed % 3 : i == 1 ? 1 : 1 + some), i);
    }
    return true;
  }
  if (name != "cu_seqlens" && name != "cu_seqlens_q" && name != "cu_seqlens_k") return false;
  Stream stream(seed, "tokens");
  std::vector<int64_t> parts = parts_of(q ? q->size(0) : k->size(0), view.size(0) - 1, stream);
  if (name == "cu_seqlens_k" && table) {
    Stream contexts(seed, "contexts");
    for (size_t i = 0; i < parts.size(); ++i)
      if (const int64_t left = capacity - parts[i]; left > 0)
        parts[i] += static_cast<int64_t>(contexts.below(i, static_cast<uint64_t>(left + 1)));
  } else if (name == "cu_seqlens_k" && k->size(0) != q->size(0)) {
    parts = parts_of(k->size(0), view.size(0) - 1, stream);
  }
  set_bounds(view, parts);
  return true;
}

}  // namespace fk
