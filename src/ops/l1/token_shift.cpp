#include "ops/l1/token_shift.h"

#include <algorithm>

#include "ops/algebra/definition.h"
#include "ops/l1/recurrence.h"
#include "ops/register.h"

namespace fk {

OutputSpecs TokenShift::outputs(const Init&, Args given) { return {given[0]->spec()}; }

Inputs TokenShift::inputs(const Init& init, const Workload& w) {
  using Kind = Generator::Kind;
  const int64_t S = w.num_sequences();
  Inputs all = {InputSpec{{{w.num_tokens(), init.hidden_size}, w.dtype}, Generator::normal()},
                InputSpec{{{state_slots(w), init.hidden_size}, w.dtype}, Generator::normal()},
                InputSpec{{{S}, DType::kI32}, Generator::metadata(Kind::kStateSlots).or_special()},
                InputSpec{{{S + 1}, DType::kI32}, Generator::metadata(Kind::kCuSeqlensQ)}};
  if (!needs_offsets(w)) all[3].reset();
  return all;
}

Cost TokenShift::cost(const Init& init, const Workload& w) {
  auto size = static_cast<double>(dtype_size(w.dtype)), D = static_cast<double>(init.hidden_size);
  auto running = static_cast<double>(
      std::count_if(w.sequences.begin(), w.sequences.end(), [](const Sequence& s) { return s.query_len > 0; }));
  auto T = static_cast<double>(w.num_tokens());
  return {.read_bytes = (T + running) * D * size, .written_bytes = (T + running) * D * size, .vector_flops = T * D};
}

Tolerance TokenShift::tolerance(const Init&, DType dtype) { return rounding_tolerance(dtype); }

std::vector<Case<TokenShift>> TokenShift::cases() {
  return {{"one element", {.hidden_size = 1}, Workload::batch({{1, 0}})},
          {"one token each", {.hidden_size = 77}, Workload::batch({{1, 3}, {1, 0}, {1, 9}})},
          {"one token each, with their starts", {.hidden_size = 16}, Workload::batch({{1, 3}, {1, 9}}, true)},
          {"prompts", {.hidden_size = 131}, Workload::batch({{1, 4}, {7, 0}, {19, 5}})},
          {"wide", {.hidden_size = 2560}, Workload::batch({{5, 2}, {3, 0}})},
          {"one without tokens", {.hidden_size = 24}, Workload::batch({{5, 3}, {0, 2}, {3, 0}})},
          {"no tokens", {.hidden_size = 16}, Workload::batch({{0, 2}})}};
}

std::string_view TokenShift::refuse_call(Args args) const {
  if (!args[3] && args[0]->size(0) != args[2]->size(0)) return "without cu_seqlens every sequence has one token";
  return {};
}

namespace {

class TokenShiftOracle final : public TokenShift {
 public:
  using TokenShift::TokenShift;

  void forward(Context&, View x, View shift_state, View state_slots, OptView cu_seqlens, View out) override {
    for (int64_t s = 0; s < state_slots.size(0); ++s) {
      const int64_t begin = cu_seqlens ? static_cast<int64_t>(get(*cu_seqlens, s)) : s;
      const int64_t end = cu_seqlens ? static_cast<int64_t>(get(*cu_seqlens, s + 1)) : s + 1;
      const auto slot = static_cast<int64_t>(get(state_slots, s));
      for (int64_t i = 0; i < init_.hidden_size && begin < end; ++i) {
        double before = slot < 0 ? 0 : get(shift_state, slot, i);
        for (int64_t t = begin; t < end; ++t) {
          const double now = get(x, t, i);
          set(out, before - now, t, i);
          before = now;
        }
        if (slot >= 0) set(shift_state, before, slot, i);
      }
    }
  }
};

FK_OPERATOR(TokenShift, TokenShiftOracle);

void define_token_shift(const TokenShift::Init&, Definition& d) {
  if (d.has("cu_seqlens")) return d.leave_opaque("the token before is in the batch, or the sequence's state");
  Expr x = d.arg("x"), state = d.arg("shift_state"), slots = d.arg("state_slots");
  d.result("out", gather(state, slots) - x);
  d.result("shift_state", scatter(state, slots, x));
}
FK_DEFINITION(TokenShift, define_token_shift);

}  // namespace
}  // namespace fk
