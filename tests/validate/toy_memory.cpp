#include "tests/validate/toy_memory.h"

#include "ops/register.h"

namespace fk::validate {

std::vector<StateSpec> ToyMemory::states(const Init& init) {
  return {{"history", StateKind::kPerToken, {init.width}}, {"sum", StateKind::kPerSequence, {init.width}, DType::kF32}};
}

OutputSpecs ToyMemory::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs ToyMemory::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), init.width}, w.dtype}, Generator::normal()}};
}

Cost ToyMemory::cost(const Init& init, const Workload& w) {
  double bytes = static_cast<double>(w.num_tokens() * init.width) * static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = bytes, .written_bytes = 2 * bytes};
}

Tolerance ToyMemory::tolerance(const Init&, DType dtype) { return rounding_tolerance(dtype, 4); }

std::vector<Case<ToyMemory>> ToyMemory::cases() {
  return {{"mixed", {.width = 24}, Workload::batch({{1, 20}, {1, 3}, {7, 0}, {4, 18}})},
          {"pages of 4", {.width = 8}, Workload::batch({{1, 9}, {6, 5}}).with_pages_of(4)}};
}

Cost ToyPair::cost(const Init& init, const Workload& w) {
  Cost one = ToyMemory::cost(init, w);
  return {.read_bytes = one.read_bytes, .written_bytes = 1.5 * one.written_bytes};
}

std::vector<Case<ToyPair>> ToyPair::cases() {
  return {{"mixed", {.width = 24}, Workload::batch({{1, 20}, {1, 3}, {7, 0}, {4, 18}})}};
}

namespace {

class ToyMemoryOracle final : public ToyMemory {
 public:
  using ToyMemory::ToyMemory;

  void forward(Context& ctx, View x, View out) override {
    const View &history = own_state(ctx, 0), &sum = own_state(ctx, 1);
    int64_t first = 0, page = history.size(1);
    for (const SequenceGroup* group : {&ctx.attention->decode, &ctx.attention->prefill}) {
      for (int64_t s = 0; s < group->num_sequences; ++s) {
        auto begin = static_cast<int64_t>(get(group->cu_seqlens_q, s)),
             end = static_cast<int64_t>(get(group->cu_seqlens_q, s + 1)),
             slot = static_cast<int64_t>(get(group->state_slots, s)),
             block = static_cast<int64_t>(get(group->block_table, s, 0));
        for (int64_t i = 0; i < init_.width; ++i) {
          for (int64_t t = first + begin; t < first + end; ++t) {
            auto at = static_cast<int64_t>(get(ctx.attention->slot_mapping, t));
            set(history, get(x, t, i), at / page, at % page, i);
            set(sum, get(sum, slot, i) / 2 + get(x, t, i), slot, i);
            set(out, get(sum, slot, i) + get(history, block, 0, i), t, i);
          }
        }
      }
      first += group->num_tokens;
    }
  }
};

class ComposedToyPair final : public ToyPair {
 public:
  ComposedToyPair(const Init& init, Builder& builder)
      : ToyPair(init), left(builder.child<ToyMemory>("left", init)), right(builder.child<ToyMemory>("right", init)) {}

  void forward(Context& ctx, View x, View out) override { right.into(ctx, left(ctx, x), out); }

 private:
  Op<ToyMemory> left, right;
};

FK_OPERATOR(ToyMemory, ToyMemoryOracle);
FK_COMPOSITION(ToyPair, ComposedToyPair);

}  // namespace
}  // namespace fk::validate
