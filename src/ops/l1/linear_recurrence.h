// The common part of operators that keep one matrix per head and sequence: linear attention with decay, delta rules.
//
// With a token's query q, key k and value v, and the state S [K, V] of a head,
//
//   S <- diag(exp(g)) S + b (a^T S) + k v^T,   out = scale * S^T q
//
// where a^T S is taken before the update. Rules differ in where g, a and b come from. A delta rule with beta, which
// replaces what S holds for k by v in part, is the same with a = exp(g) k, b = -beta k, and beta k in place of k.
#pragma once

#include <array>
#include <cmath>
#include <utility>

#include "ops/contract.h"

namespace fk {

struct LinearRecurrenceInit {
  int64_t num_heads = 0;    // of q; heads of the state are as many as those of q, k or v, whichever has most
  int64_t num_k_heads = 0;  // of k, and of decays per element; 0: num_heads
  int64_t num_v_heads = 0;  // of v, and of what a head has one number of; 0: num_k_heads
  int64_t head_k_dim = 0;
  int64_t head_v_dim = 0;
  double scale = 0;        // of the output; 0: 1 / sqrt(head_k_dim)
  int64_t first_head = 0;  // of the model, where ranks divide the heads: decays of retention depend on it

  int64_t k_heads() const { return num_k_heads > 0 ? num_k_heads : num_heads; }
  int64_t v_heads() const { return num_v_heads > 0 ? num_v_heads : k_heads(); }
  int64_t state_heads() const;

  template <class Visitor>
  void visit(Visitor&& v) {
    v("num_heads", num_heads);
    v("num_k_heads", num_k_heads);
    v("num_v_heads", num_v_heads);
    v("head_k_dim", head_k_dim);
    v("head_v_dim", head_v_dim);
    v("scale", scale);
    v("first_head", first_head);
  }
};

// One call of any of these operators. A tensor with fewer heads than the state is shared by neighbouring ones.
struct LinearRecurrence {
  View q, k, v;             // [T, H, K], [T, H, K], [T, H, V]
  OptView g = {};           // logarithms of decays, f32: [T, H, K], or [T, H] for one number a head
  OptView beta = {};        // f32 [T, H]
  OptView a = {}, b = {};   // [T, H, K]
  View state;               // f32 [slots, H, K, V]
  OptView cu_seqlens = {};  // i32 [S + 1]; none: every sequence has one token
  View state_slots;         // i32 [S]; negative: a padding row, whose output is not used
  View out;                 // [T, H, V]
  double scale = 1;
  bool retention = false;  // without g: head h decays by 1 - 2^(-5 - h)
  int64_t first_head = 0;

  int64_t heads() const { return state.size(1); }
  int64_t sequences() const { return state_slots.size(0); }
  bool has_delta() const { return beta.has_value() || a.has_value(); }
  // The head of a tensor that head h of the state uses.
  int64_t head_of(const View& tensor, int64_t h) const { return h * tensor.size(1) / heads(); }
  // Of head h, where retention is set.
  double retention_decay(int64_t h) const;
};

// What the token inputs of an operator are; each rule lists them in the order of its signature.
enum class RecurrenceInput : uint8_t {
  kQuery,
  kKey,
  kUnitKey,  // of norm around 1: delta rules are stable for such keys only
  kValue,
  kDecayPerElement,
  kDecayPerHead,
  kBeta,
  kRemoved,  // a and b of rules that have them: of a norm around 1/2
  kAdded,
};

namespace linear_recurrence {
InputSpec input(RecurrenceInput input, const LinearRecurrenceInit& init, const Workload& workload, int64_t tokens);
void place(RecurrenceInput input, const View& view, LinearRecurrence& call);
Inputs inputs(std::span<const RecurrenceInput> rule, bool chunk, const LinearRecurrenceInit& init, const Workload& w);
Cost cost(std::span<const RecurrenceInput> rule, bool chunk, const LinearRecurrenceInit& init, const Workload& w);
Tolerance tolerance(bool chunk, const LinearRecurrenceInit& init, DType dtype);
StateSpec state(std::string name, const LinearRecurrenceInit& init);
// Why no implementation supports such a call.
std::string_view refuse(const LinearRecurrence& call);
// Token by token, in double where the tensors are.
void oracle(const LinearRecurrence& call);
// Shapes that find bugs, for all rules.
std::vector<std::pair<std::string, std::pair<LinearRecurrenceInit, Workload>>> cases(bool chunk);
}  // namespace linear_recurrence

namespace detail {
template <size_t>
using ViewOf = View;

template <class Indices>
class RecurrenceForward;
template <size_t... I>
class RecurrenceForward<std::index_sequence<I...>> : public Operator {
 public:
  virtual void forward(Context& ctx, ViewOf<I>... args) = 0;
};
}  // namespace detail

// Rule: `kArgs`, the token inputs by name, and `kInputs`, what they are. kChunk: sequences have any number of tokens;
// otherwise one each.
//
// forward takes the token inputs, the state [slots, H, K, V] in f32, cu_seqlens i32 [S + 1] where kChunk, state_slots
// i32 [S] and out [T, H, V]. Rows may be strided.
template <class Rule, bool kChunk>
class LinearRecurrenceOperator
    : public detail::RecurrenceForward<std::make_index_sequence<Rule::kArgs.size() + (kChunk ? 4 : 3)>> {
 public:
  static constexpr int kLevel = 1;
  using Init = LinearRecurrenceInit;
  static constexpr size_t kTokenArgs = Rule::kArgs.size(), kNumArgs = kTokenArgs + (kChunk ? 4 : 3);

  static constexpr std::array<ArgSpec, kNumArgs> kArgs = [] {
    std::array<ArgSpec, kNumArgs> all{};
    size_t n = 0;
    for (const ArgSpec& arg : Rule::kArgs) all[n++] = arg;
    all[n++] = fk::state("recurrent_state");
    if (kChunk) all[n++] = in("cu_seqlens");
    all[n++] = in("state_slots");
    all[n++] = out("out");
    return all;
  }();

  explicit LinearRecurrenceOperator(const Init& init) : init_(init) {}

  static OutputSpecs outputs(const Init& init, Args given) {
    return {TensorSpec{{given[0]->size(0), init.state_heads(), init.head_v_dim}, given[0]->dtype()}};
  }
  static Inputs inputs(const Init& init, const Workload& w) {
    return linear_recurrence::inputs(Rule::kInputs, kChunk, init, w);
  }
  static Cost cost(const Init& init, const Workload& w) {
    return linear_recurrence::cost(Rule::kInputs, kChunk, init, w);
  }
  static Tolerance tolerance(const Init& init, DType dtype) {
    return linear_recurrence::tolerance(kChunk, init, dtype);
  }

  LinearRecurrence call_of(std::span<const View> args) const;

 protected:
  template <class Self>
  static std::vector<Case<Self>> common_cases() {
    std::vector<Case<Self>> all;
    for (auto& [label, what] : linear_recurrence::cases(kChunk)) all.push_back({label, what.first, what.second});
    return all;
  }

  const Init init_;
};

template <class Rule, bool kChunk>
LinearRecurrence LinearRecurrenceOperator<Rule, kChunk>::call_of(std::span<const View> args) const {
  LinearRecurrence call;
  size_t n = 0;
  for (RecurrenceInput input : Rule::kInputs) linear_recurrence::place(input, args[n++], call);
  call.state = args[n++];
  if (kChunk) call.cu_seqlens = args[n++];
  call.state_slots = args[n++];
  call.out = args[n++];
  call.scale = init_.scale != 0 ? init_.scale : 1 / std::sqrt(static_cast<double>(init_.head_k_dim));
  call.retention = !call.g;
  call.first_head = init_.first_head;
  return call;
}

// T: the operator; Run: a class with `static std::string_view refuse(const LinearRecurrence&)` and `static void
// run(Context&, const LinearRecurrence&)`.
template <class T, class Run, class Indices = std::make_index_sequence<T::kNumArgs>>
class RunsRecurrence;
template <class T, class Run, size_t... I>
class RunsRecurrence<T, Run, std::index_sequence<I...>> final : public T {
 public:
  using T::T;

  std::string_view refuse(Args args) const override { return Run::refuse(this->call_of(std::array{*args[I]...})); }
  void forward(Context& ctx, detail::ViewOf<I>... args) override { Run::run(ctx, this->call_of(std::array{args...})); }
};

struct RecurrenceOracle {
  static std::string_view refuse(const LinearRecurrence&) { return {}; }
  static void run(Context&, const LinearRecurrence& call) { linear_recurrence::oracle(call); }
};

}  // namespace fk
