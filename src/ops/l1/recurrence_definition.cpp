#include "ops/l1/recurrence_definition.h"

#include <cmath>
#include <map>

#include "ops/algebra/pieces.h"

namespace fk {

void define_step(std::span<const ArgSpec> names, std::span<const RecurrenceInput> inputs,
                 const LinearRecurrenceInit& init, Definition& d) {
  using Kind = RecurrenceInput;
  Expr state = d.arg("recurrent_state"), slots = d.arg("state_slots");
  const int64_t T = slots.size(0), H = init.state_heads();
  for (int64_t heads : {init.num_heads, init.k_heads(), init.v_heads()})
    if (H % heads != 0) return d.leave_opaque("its heads are not shared evenly");
  std::map<Kind, Expr> given;  // [T, H, ...], all heads
  for (size_t i = 0; i < inputs.size(); ++i) {
    Expr x = d.arg(names[i].name);
    if (x.rank() == 2) x = insert_axis(x, 2);
    given[inputs[i] == Kind::kUnitKey ? Kind::kKey : inputs[i]] = algebra::repeat_heads(x, H);
  }
  auto column = [](const Expr& x) { return insert_axis(x, 3); };  // [T, H, K, 1]

  Expr decay;
  if (given.contains(Kind::kDecayPerElement)) {
    decay = exp(column(given[Kind::kDecayPerElement]));
  } else if (given.contains(Kind::kDecayPerHead)) {
    decay = exp(column(given[Kind::kDecayPerHead]));
  } else {
    std::vector<double> decays;
    for (int64_t h = 0; h < H; ++h) decays.push_back(1 - std::exp2(-5.0 - static_cast<double>(init.first_head + h)));
    decay = algebra::table(std::move(decays), d.real(), {1, H, 1, 1});
  }
  Expr old = gather(state, slots);  // [T, H, K, V]
  Expr key = column(given[Kind::kKey]), added = key;
  if (given.contains(Kind::kBeta)) added = column(given[Kind::kBeta]) * key;
  Expr now = decay * old + added * insert_axis(given[Kind::kValue], 2);
  if (given.contains(Kind::kRemoved)) {
    now = now + column(given[Kind::kAdded]) * sum(column(given[Kind::kRemoved]) * old, 2);
  } else if (given.contains(Kind::kBeta)) {
    now = now - added * sum(decay * key * old, 2);
  }
  const double scale = init.scale != 0 ? init.scale : 1 / std::sqrt(static_cast<double>(init.head_k_dim));
  d.result("out", reshape(sum(column(given[Kind::kQuery]) * now, 2) * scale, {T, H, init.head_v_dim}));
  d.result("recurrent_state", scatter(state, slots, cast(now, state.dtype())));
}

}  // namespace fk
