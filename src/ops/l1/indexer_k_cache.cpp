#include "ops/l1/indexer_k_cache.h"

#include "ops/algebra/pieces.h"
#include "ops/refusals.h"
#include "ops/register.h"

namespace fk {

Inputs IndexerKCache::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.head_dim}, w.dtype}, Generator::normal()},
          InputSpec{{{cache_blocks(w), w.page_size, init.head_dim}, w.dtype}, Generator::normal()},
          InputSpec{{{w.num_tokens()}, DType::kI64}, Generator::metadata(Generator::Kind::kSlotMapping).or_special()}};
}

Cost IndexerKCache::cost(const Init& init, const Workload& w) {
  auto tokens = static_cast<double>(w.num_tokens());
  double bytes = tokens * static_cast<double>(init.head_dim) * static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = bytes + 8 * tokens, .written_bytes = bytes};
}

std::vector<Case<IndexerKCache>> IndexerKCache::cases() {
  return {
      {"one token", {.head_dim = 1}, Workload::tokens(1)},
      {"mixed batch, odd", {.head_dim = 27}, Workload::batch({{1, 16}, {1, 30}, {37, 0}, {5, 15}})},
      {"as published", {.head_dim = 128}, Workload::batch({{1, 100}, {9, 0}})},
      {"pages of 8", {.head_dim = 32}, Workload::batch({{1, 16}, {9, 3}}).with_pages_of(8)},
      {"no tokens", {.head_dim = 16}, Workload::tokens(0)},
  };
}

std::string_view IndexerKCache::refuse_call(Args args) const {
  if (args[2]->dtype() != DType::kI64) return "slot_mapping must be i64";
  return refuse_copy(*args[0], *args[1]);
}

namespace {

class IndexerKCacheOracle final : public IndexerKCache {
 public:
  using IndexerKCache::IndexerKCache;

  void forward(Context&, View k, View k_cache, View slot_mapping) override {
    int64_t page = k_cache.size(1);
    for (int64_t t = 0; t < k.size(0); ++t) {
      auto slot = static_cast<int64_t>(get(slot_mapping, t));
      if (slot < 0) continue;
      for (int64_t i = 0; i < init_.head_dim; ++i) set(k_cache, get(k, t, i), slot / page, slot % page, i);
    }
  }
};

FK_OPERATOR(IndexerKCache, IndexerKCacheOracle);

void define_indexer_k_cache(const IndexerKCache::Init&, Definition& d) {
  d.result("k_cache", algebra::store_rows(d.arg("k_cache"), d.arg("slot_mapping"), d.arg("k")));
}
FK_DEFINITION(IndexerKCache, define_indexer_k_cache);

}  // namespace
}  // namespace fk
