#include "ops/l1/store_kvcache.h"

#include "ops/algebra/pieces.h"
#include "ops/refusals.h"
#include "ops/register.h"

namespace fk {

OutputSpecs StoreKVCache::outputs(const Init&, Args) { return {}; }

Inputs StoreKVCache::inputs(const Init& init, const Workload& w) {
  InputSpec token{{{w.num_tokens(), init.num_kv_heads, init.head_size}, w.dtype}, Generator::normal()};
  InputSpec cache{{{cache_blocks(w), w.page_size, init.num_kv_heads, init.head_size}, w.dtype}, Generator::normal()};
  InputSpec slots{{{w.num_tokens()}, DType::kI64}, Generator::metadata(Generator::Kind::kSlotMapping).or_special()};
  return {token, token, cache, cache, slots};
}

Cost StoreKVCache::cost(const Init& init, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens() * init.num_kv_heads * init.head_size);
  double both = 2 * n * static_cast<double>(dtype_size(w.dtype));  // keys and values
  return {.read_bytes = both + 8 * static_cast<double>(w.num_tokens()), .written_bytes = both};
}

Tolerance StoreKVCache::tolerance(const Init&, DType) { return {}; }  // a copy is exact

std::vector<Case<StoreKVCache>> StoreKVCache::cases() {
  return {
      {"one token", {.num_kv_heads = 1, .head_size = 1}, Workload::tokens(1)},
      {"mixed batch", {.num_kv_heads = 3, .head_size = 24}, Workload::batch({{1, 16}, {1, 30}, {37, 0}, {5, 15}})},
      {"wide", {.num_kv_heads = 8, .head_size = 64}, Workload::batch({{1, 100}, {70, 0}})},
      {"pages of 8",
       {.num_kv_heads = 2, .head_size = 16},
       Workload::batch({{1, 16}, {1, 30}, {9, 3}}).with_pages_of(8)},
      {"no tokens", {.num_kv_heads = 2, .head_size = 8}, Workload::tokens(0)},
  };
}

std::string_view StoreKVCache::refuse_call(Args args) const {
  if (args[4]->dtype() != DType::kI64) return "slot_mapping must be i64";
  if (!args[2]->contiguous() || !args[3]->contiguous()) return "the caches must be contiguous";
  std::string_view why = refuse_copy(*args[0], *args[2]);
  return why.empty() ? refuse_copy(*args[1], *args[3]) : why;
}

namespace {

class StoreKVCacheOracle final : public StoreKVCache {
 public:
  using StoreKVCache::StoreKVCache;

  void forward(Context&, View key, View value, View key_cache, View value_cache, View slot_mapping) override {
    int64_t page = key_cache.size(1);
    for (int64_t t = 0; t < key.size(0); ++t) {
      auto slot = static_cast<int64_t>(get(slot_mapping, t));
      if (slot < 0) continue;
      for (int64_t h = 0; h < init_.num_kv_heads; ++h)
        for (int64_t i = 0; i < init_.head_size; ++i) {
          set(key_cache, get(key, t, h, i), slot / page, slot % page, h, i);
          set(value_cache, get(value, t, h, i), slot / page, slot % page, h, i);
        }
    }
  }
};

FK_OPERATOR(StoreKVCache, StoreKVCacheOracle);

// Blocks and pages as one list of slots.
void define_store_kvcache(const StoreKVCache::Init&, Definition& d) {
  for (const char* part : {"key", "value"}) {
    std::string name = std::string(part) + "_cache";
    d.result(name, algebra::store_rows(d.arg(name), d.arg("slot_mapping"), d.arg(part)));
  }
}
FK_DEFINITION(StoreKVCache, define_store_kvcache);

}  // namespace
}  // namespace fk
