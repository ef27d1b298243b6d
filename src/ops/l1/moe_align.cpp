#include "ops/l1/moe_align.h"

#include "ops/algebra/definition.h"
#include "ops/l1/expert_choice.h"
#include "ops/register.h"

namespace fk {

OutputSpecs MoeAlign::outputs(const Init& init, Args given) {
  return {TensorSpec{{given[0]->size(0) * init.top_k}, DType::kI32}, TensorSpec{{init.num_experts + 1}, DType::kI32}};
}

Inputs MoeAlign::inputs(const Init& init, const Workload& w) {
  check_top_k(init.num_experts, init.top_k);
  return {InputSpec{{{w.num_tokens(), init.top_k}, DType::kI32},
                    Generator::routing(Generator::Kind::kTopkIds, init.num_experts, init.top_k)}};
}

Cost MoeAlign::cost(const Init& init, const Workload& w) {
  auto pairs = static_cast<double>(w.num_tokens() * init.top_k), E = static_cast<double>(init.num_experts);
  return {.read_bytes = 4 * pairs, .written_bytes = 4 * (pairs + E + 1)};
}

Tolerance MoeAlign::tolerance(const Init&, DType) { return {}; }  // integers are exact

std::vector<Case<MoeAlign>> MoeAlign::cases() {
  return {
      {"one pair", {.num_experts = 1, .top_k = 1}, Workload::tokens(1)},
      {"one token", {.num_experts = 128, .top_k = 8}, Workload::tokens(1)},
      {"eight experts", {.num_experts = 8, .top_k = 2}, Workload::tokens(37)},
      {"empty experts", {.num_experts = 61, .top_k = 3}, Workload::tokens(9)},
      {"many tokens", {.num_experts = 9, .top_k = 8}, Workload::tokens(4201)},
      {"no tokens", {.num_experts = 8, .top_k = 2}, Workload::tokens(0)},
  };
}

namespace {

class MoeAlignOracle final : public MoeAlign {
 public:
  using MoeAlign::MoeAlign;

  void forward(Context&, View topk_ids, View sorted_token_ids, View expert_offsets) override {
    int64_t at = 0;
    for (int64_t e = 0; e < init_.num_experts; ++e) {
      set(expert_offsets, static_cast<double>(at), e);
      for (int64_t t = 0; t < topk_ids.size(0); ++t)
        for (int64_t j = 0; j < init_.top_k; ++j)
          if (static_cast<int64_t>(get(topk_ids, t, j)) == e)
            set(sorted_token_ids, static_cast<double>(t * init_.top_k + j), at++);
    }
    set(expert_offsets, static_cast<double>(at), init_.num_experts);
  }
};

FK_OPERATOR(MoeAlign, MoeAlignOracle);

// A pair's place is behind the pairs of lower experts and the earlier ones of its own.
void define_moe_align(const MoeAlign::Init& init, Definition& d) {
  const int64_t pairs = d.arg("topk_ids").size(0) * init.top_k, E = init.num_experts;
  Expr expert = reshape(d.arg("topk_ids"), {pairs}), zero = algebra::constant(0);
  Expr lower = select(expert < algebra::iota({E + 1, 1}, 0), 1, zero);  // [E + 1, pairs]
  Expr offsets = drop_axis(sum(lower, 1), 1);
  Expr own = select(equal(expert, algebra::iota({E, 1}, 0)), 1, zero);  // [E, pairs]
  Expr earlier = drop_axis(sum(own * scan(own, 1), 0), 0) - 1;
  Expr pair = cast(algebra::iota({pairs}, 0), DType::kI32);
  d.result("sorted_token_ids", scatter(pair, gather(offsets, expert) + earlier, pair));
  d.result("expert_offsets", offsets);
}
FK_DEFINITION(MoeAlign, define_moe_align);

}  // namespace
}  // namespace fk
