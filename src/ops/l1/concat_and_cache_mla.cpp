#include "ops/l1/concat_and_cache_mla.h"

#include "ops/algebra/pieces.h"
#include "ops/refusals.h"
#include "ops/register.h"

namespace fk {

OutputSpecs ConcatAndCacheMLA::outputs(const Init&, Args) { return {}; }

Inputs ConcatAndCacheMLA::inputs(const Init& init, const Workload& w) {
  auto rows = [&](int64_t width) { return InputSpec{{{w.num_tokens(), width}, w.dtype}, Generator::normal()}; };
  InputSpec cache{{{cache_blocks(w), w.page_size, init.kv_lora_rank + init.qk_rope_head_dim}, w.dtype},
                  Generator::normal()};
  InputSpec slots{{{w.num_tokens()}, DType::kI64}, Generator::metadata(Generator::Kind::kSlotMapping).or_special()};
  return {rows(init.kv_lora_rank), rows(init.qk_rope_head_dim), cache, slots};
}

Cost ConcatAndCacheMLA::cost(const Init& init, const Workload& w) {
  auto tokens = static_cast<double>(w.num_tokens());
  double bytes = tokens * static_cast<double>(init.kv_lora_rank + init.qk_rope_head_dim) *
                 static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = bytes + 8 * tokens, .written_bytes = bytes};
}

Tolerance ConcatAndCacheMLA::tolerance(const Init&, DType) { return {}; }  // a copy is exact

std::vector<Case<ConcatAndCacheMLA>> ConcatAndCacheMLA::cases() {
  return {
      {"one token", {.kv_lora_rank = 1, .qk_rope_head_dim = 1}, Workload::tokens(1)},
      {"mixed batch, odd",
       {.kv_lora_rank = 27, .qk_rope_head_dim = 6},
       Workload::batch({{1, 16}, {1, 30}, {37, 0}, {5, 15}})},
      {"as published", {.kv_lora_rank = 512, .qk_rope_head_dim = 64}, Workload::batch({{1, 100}, {9, 0}})},
      {"pages of 8",
       {.kv_lora_rank = 32, .qk_rope_head_dim = 16},
       Workload::batch({{1, 16}, {1, 30}, {9, 3}}).with_pages_of(8)},
      {"no tokens", {.kv_lora_rank = 16, .qk_rope_head_dim = 8}, Workload::tokens(0)},
  };
}

std::string_view ConcatAndCacheMLA::refuse_call(Args args) const {
  if (args[3]->dtype() != DType::kI64) return "slot_mapping must be i64";
  std::string_view why = refuse_copy(*args[0], *args[2]);
  return why.empty() ? refuse_copy(*args[1], *args[2]) : why;
}

namespace {

class ConcatAndCacheMLAOracle final : public ConcatAndCacheMLA {
 public:
  using ConcatAndCacheMLA::ConcatAndCacheMLA;

  void forward(Context&, View kv_c, View k_pe, View kv_cache, View slot_mapping) override {
    int64_t page = kv_cache.size(1), latent = init_.kv_lora_rank;
    for (int64_t t = 0; t < kv_c.size(0); ++t) {
      auto slot = static_cast<int64_t>(get(slot_mapping, t));
      if (slot < 0) continue;
      for (int64_t i = 0; i < latent; ++i) set(kv_cache, get(kv_c, t, i), slot / page, slot % page, i);
      for (int64_t i = 0; i < init_.qk_rope_head_dim; ++i)
        set(kv_cache, get(k_pe, t, i), slot / page, slot % page, latent + i);
    }
  }
};

FK_OPERATOR(ConcatAndCacheMLA, ConcatAndCacheMLAOracle);

void define_concat_and_cache_mla(const ConcatAndCacheMLA::Init&, Definition& d) {
  d.result("kv_cache", algebra::store_rows(d.arg("kv_cache"), d.arg("slot_mapping"),
                                           algebra::beside(d.arg("kv_c"), d.arg("k_pe"), 1)));
}
FK_DEFINITION(ConcatAndCacheMLA, define_concat_and_cache_mla);

}  // namespace
}  // namespace fk
