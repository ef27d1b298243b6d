#include "ops/l1/linear_recurrence.h"

#include <algorithm>
#include <cmath>

#include "core/element_rows.h"

namespace fk {

int64_t LinearRecurrenceInit::state_heads() const { return std::max({num_heads, k_heads(), v_heads()}); }

double LinearRecurrence::retention_decay(int64_t h) const {
  return 1 - std::exp2(-5.0 - static_cast<double>(first_head + h));
}

namespace linear_recurrence {

using Kind = RecurrenceInput;

InputSpec input(RecurrenceInput input, const LinearRecurrenceInit& init, const Workload& w, int64_t T) {
  const DType exact = w.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const int64_t K = init.head_k_dim;
  // Uniform numbers of this range have rows of norm 1.
  const double unit = std::sqrt(3.0 / static_cast<double>(K));
  // Slow decays, so that a state lasts over chunks; in small heads a quarter is so fast that e^-g leaves f32.
  const Generator decay = K < 16 ? Generator::uniform_or(-0.3, 0, -90) : Generator::uniform(-0.03, 0);
  switch (input) {
    case Kind::kQuery:
      return {{{T, init.num_heads, K}, w.dtype}, Generator::normal()};
    case Kind::kKey:
      return {{{T, init.k_heads(), K}, w.dtype}, Generator::normal()};
    case Kind::kUnitKey:
      return {{{T, init.k_heads(), K}, w.dtype}, Generator::uniform(-unit, unit)};
    case Kind::kValue:
      return {{{T, init.v_heads(), init.head_v_dim}, w.dtype}, Generator::normal()};
    case Kind::kDecayPerElement:
      return {{{T, init.k_heads(), K}, exact}, decay};
    case Kind::kDecayPerHead:
      return {{{T, init.v_heads()}, exact}, decay};
    case Kind::kBeta:
      return {{{T, init.v_heads()}, exact}, Generator::uniform(0, 1)};
    case Kind::kRemoved:
    case Kind::kAdded:
      return {{{T, init.k_heads(), K}, w.dtype}, Generator::uniform(-unit / 2, unit / 2)};
  }
  return {};
}

void place(RecurrenceInput input, const View& view, LinearRecurrence& call) {
  switch (input) {
    case Kind::kQuery:
      call.q = view;
      return;
    case Kind::kKey:
    case Kind::kUnitKey:
      call.k = view;
      return;
    case Kind::kValue:
      call.v = view;
      return;
    case Kind::kDecayPerElement:
    case Kind::kDecayPerHead:
      call.g = view;
      return;
    case Kind::kBeta:
      call.beta = view;
      return;
    case Kind::kRemoved:
      call.a = view;
      return;
    case Kind::kAdded:
      call.b = view;
      return;
  }
}

Inputs inputs(std::span<const RecurrenceInput> rule, bool chunk, const LinearRecurrenceInit& init, const Workload& w) {
  using Metadata = Generator::Kind;
  const int64_t S = w.num_sequences(), T = chunk ? w.num_tokens() : S;
  Inputs all;
  for (RecurrenceInput one : rule) all.push_back(input(one, init, w, T));
  const DType exact = w.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  all.push_back(
      InputSpec{{{state_slots(w), init.state_heads(), init.head_k_dim, init.head_v_dim}, exact}, Generator::normal()});
  if (chunk) all.push_back(InputSpec{{{S + 1}, DType::kI32}, Generator::metadata(Metadata::kCuSeqlensQ)});
  all.push_back(InputSpec{{{S}, DType::kI32}, Generator::metadata(Metadata::kStateSlots)});
  return all;
}

Cost cost(std::span<const RecurrenceInput> rule, bool chunk, const LinearRecurrenceInit& init, const Workload& w) {
  const auto S = static_cast<double>(w.num_sequences());
  const auto T = chunk ? static_cast<double>(w.num_tokens()) : S;
  const auto heads = static_cast<double>(init.state_heads());
  const auto matrix = static_cast<double>(init.head_k_dim * init.head_v_dim);
  const auto size = static_cast<double>(dtype_size(w.dtype));
  // A sequence without tokens leaves its state alone.
  double running = S;
  if (chunk)
    running = static_cast<double>(
        std::count_if(w.sequences.begin(), w.sequences.end(), [](const Sequence& s) { return s.query_len > 0; }));
  double given = 0;
  for (RecurrenceInput one : rule) {
    TensorSpec spec = input(one, init, w, static_cast<int64_t>(T)).spec;
    given += static_cast<double>(spec.size_bytes());
  }
  // Each token adds one product of a column and a row and takes one of a row and the state; in chunks these are
  // products of matrices.
  bool delta = std::any_of(rule.begin(), rule.end(), [](Kind k) { return k == Kind::kBeta || k == Kind::kRemoved; });
  double flops = (delta ? 8 : 4) * T * heads * matrix;
  return {.read_bytes = given + 4 * running * heads * matrix,
          .written_bytes = 4 * running * heads * matrix + size * T * heads * static_cast<double>(init.head_v_dim),
          .matrix_flops = chunk ? flops : 0,
          .vector_flops = chunk ? 0 : flops};
}

Tolerance tolerance(bool chunk, const LinearRecurrenceInit& init, DType dtype) {
  // Sums over keys, of states that are sums over tokens; decays are rounded once per token.
  Tolerance t = rounding_tolerance(dtype, 64 * static_cast<double>(init.head_k_dim));
  // In chunks the operands of products, which are not those of the call, may be rounded for tensor cores.
  if (chunk && (dtype == DType::kBF16 || dtype == DType::kF16)) t.of_scale += dtype_epsilon(dtype);
  return t;
}

StateSpec state(std::string name, const LinearRecurrenceInit& init) {
  return {
      std::move(name), StateKind::kPerSequence, {init.state_heads(), init.head_k_dim, init.head_v_dim}, DType::kF32};
}

std::string_view refuse(const LinearRecurrence& c) {
  if (c.state.dtype() != DType::kF32 || !c.state.contiguous()) return "its state must be f32 without gaps";
  for (const OptView* v : {&c.g, &c.beta}) {
    if (!*v) continue;
    if ((*v)->dtype() != DType::kF32) return "decays and beta must be f32";
    if (!(*v)->rows_contiguous()) return "the last dimension of decays and beta must be contiguous";
  }
  return {};
}

// Row by row: a state has K times V elements, and each of them is read and written for every token.
void oracle(const LinearRecurrence& c) {
  const int64_t H = c.heads(), K = c.state.size(2), V = c.state.size(3);
  std::vector<double> S(static_cast<size_t>(K * V)), removed(static_cast<size_t>(V)), sum(static_cast<size_t>(V));
  std::vector<double> q(static_cast<size_t>(K)), k(q), decay(q), a(q), b(q), v(static_cast<size_t>(V));
  auto row_of = [](const View& x, int64_t token, int64_t head, std::vector<double>& row) {
    const int64_t at[] = {token, head, 0};
    load_elements(x.at(at), x.dtype(), x.stride(2), static_cast<int64_t>(row.size()), row.data());
  };
  for (int64_t s = 0; s < c.sequences(); ++s) {
    const int64_t begin = c.cu_seqlens ? static_cast<int64_t>(get(*c.cu_seqlens, s)) : s;
    const int64_t end = c.cu_seqlens ? static_cast<int64_t>(get(*c.cu_seqlens, s + 1)) : s + 1;
    const auto slot = static_cast<int64_t>(get(c.state_slots, s));
    for (int64_t h = 0; h < H && begin < end; ++h) {
      for (int64_t i = 0; i < K; ++i)
        for (int64_t j = 0; j < V; ++j) S[static_cast<size_t>(i * V + j)] = slot < 0 ? 0 : get(c.state, slot, h, i, j);
      for (int64_t t = begin; t < end; ++t) {
        auto load = [&](const View& x, std::vector<double>& row) { row_of(x, t, c.head_of(x, h), row); };
        load(c.q, q);
        load(c.k, k);
        load(c.v, v);
        if (c.g && c.g->rank() == 3) {
          load(*c.g, decay);
          for (double& d : decay) d = std::exp(d);
        } else {
          std::fill(decay.begin(), decay.end(),
                    c.g ? std::exp(get(*c.g, t, c.head_of(*c.g, h))) : c.retention_decay(h));
        }
        const double beta = c.beta ? get(*c.beta, t, c.head_of(*c.beta, h)) : 1;
        if (c.a) load(*c.a, a);
        if (c.b) load(*c.b, b);
        std::fill(removed.begin(), removed.end(), 0.0);
        for (size_t i = 0; i < k.size() && c.has_delta(); ++i) {
          const double factor = c.a ? a[i] : decay[i] * k[i], *row = S.data() + i * v.size();
          for (size_t j = 0; j < v.size(); ++j) removed[j] += factor * row[j];
        }
        std::fill(sum.begin(), sum.end(), 0.0);
        for (size_t i = 0; i < k.size(); ++i) {
          const double added = beta * k[i], back = c.b ? b[i] : -added;
          double* row = S.data() + i * v.size();
          for (size_t j = 0; j < v.size(); ++j) {
            row[j] = decay[i] * row[j] + added * v[j] + back * removed[j];
            sum[j] += q[i] * row[j];
          }
        }
        for (int64_t j = 0; j < V; ++j) set(c.out, c.scale * sum[static_cast<size_t>(j)], t, h, j);
      }
      for (int64_t i = 0; i < K && slot >= 0; ++i)
        for (int64_t j = 0; j < V; ++j) set(c.state, S[static_cast<size_t>(i * V + j)], slot, h, i, j);
    }
  }
}

std::vector<std::pair<std::string, std::pair<LinearRecurrenceInit, Workload>>> cases(bool chunk) {
  using Init = LinearRecurrenceInit;
  Init one{.num_heads = 1, .head_k_dim = 1, .head_v_dim = 1};
  Init odd{.num_heads = 3, .head_k_dim = 10, .head_v_dim = 21};
  Init wide{.num_heads = 2, .head_k_dim = 64, .head_v_dim = 128};
  Init keys{.num_heads = 2, .head_k_dim = 129, .head_v_dim = 65, .scale = 0.37, .first_head = 3};
  Init grouped{.num_heads = 4, .num_k_heads = 2, .num_v_heads = 2, .head_k_dim = 16, .head_v_dim = 20};
  Init more_values{.num_heads = 2, .num_k_heads = 2, .num_v_heads = 6, .head_k_dim = 24, .head_v_dim = 16};
  if (!chunk)
    return {{"one element", {one, Workload::batch({{1, 0}})}},
            {"odd", {odd, Workload::batch({{1, 3}, {1, 0}, {1, 9}})}},
            {"wide", {wide, Workload::batch({{1, 3}, {1, 20}})}},
            {"many keys", {keys, Workload::batch({{1, 5}})}},
            {"heads share keys and values", {grouped, Workload::batch({{1, 4}, {1, 1}})}},
            {"more values than keys", {more_values, Workload::batch({{1, 4}, {1, 1}, {1, 2}})}},
            {"large heads", {{.num_heads = 2, .head_k_dim = 256, .head_v_dim = 72}, Workload::batch({{1, 8}})}}};
  return {{"one element", {one, Workload::batch({{1, 0}})}},
          {"odd", {odd, Workload::batch({{1, 3}, {7, 0}, {19, 5}})}},
          {"wide, past a chunk", {wide, Workload::batch({{65, 3}, {64, 0}})}},
          {"many keys", {keys, Workload::batch({{33, 5}})}},
          {"heads share keys and values", {grouped, Workload::batch({{1, 4}, {130, 1}})}},
          {"more values than keys", {more_values, Workload::batch({{40, 4}, {1, 1}, {17, 2}})}},
          {"large heads", {{.num_heads = 1, .head_k_dim = 256, .head_v_dim = 72}, Workload::batch({{20, 8}})}},
          {"no tokens", {odd, Workload::batch({{0, 3}, {0, 0}})}},
          {"one without tokens", {odd, Workload::batch({{5, 3}, {0, 2}, {3, 0}})}}};
}

}  // namespace linear_recurrence
}  // namespace fk
