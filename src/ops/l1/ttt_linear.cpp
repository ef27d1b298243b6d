#include "ops/l1/ttt_linear.h"

#include <cmath>
#include <vector>

#include "ops/l1/recurrence.h"
#include "ops/refusals.h"
#include "ops/register.h"

namespace fk {

double TTTLinear::Init::query_scale() const {
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(head_dim));
}

std::vector<ParamSpec> TTTLinear::params(const Init& init) {
  const int64_t H = init.num_heads, D = init.head_dim;
  return {{"ttt_norm_weight", {{H, D}, init.dtype}},
          {"ttt_norm_bias", {{H, D}, init.dtype}},
          {"W1", {{H, D, D}, init.dtype}},
          {"b1", {{H, 1, D}, init.dtype}}};
}

StateSpec TTTLinear::recurrent_state(const Init& init) {
  return {"ttt_state", StateKind::kPerSequence, {init.num_heads, 2 * (init.head_dim + 1), init.head_dim}, DType::kF32};
}

OutputSpecs TTTLinear::outputs(const Init&, Args given) { return {TensorSpec{given[0]->shape(), given[0]->dtype()}}; }

Inputs TTTLinear::inputs(const Init& init, const Workload& w) {
  using Kind = Generator::Kind;
  const int64_t S = w.num_sequences(), T = w.num_tokens(), H = init.num_heads, D = init.head_dim;
  const DType wide = w.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const InputSpec heads{{{T, H, D}, w.dtype}, Generator::normal()};
  // Weights have rows of norm 1, so that z has elements around 1; states are as large.
  const double deviation = 1 / std::sqrt(static_cast<double>(D));
  return {heads,
          heads,
          heads,
          InputSpec{{{T, H}, wide}, Generator::uniform(0, 0.1)},
          InputSpec{{{T}, DType::kI64}, Generator::metadata(Kind::kPositions)},
          InputSpec{{{fk::state_slots(w), H, 2 * (D + 1), D}, wide}, Generator::normal(0, deviation)},
          InputSpec{{{S}, DType::kI32}, Generator::metadata(Kind::kStateSlots)},
          needs_offsets(w) ? std::optional(InputSpec{{{S + 1}, DType::kI32}, Generator::metadata(Kind::kCuSeqlensQ)})
                           : std::nullopt};
}

Cost TTTLinear::cost(const Init& init, const Workload& w) {
  const auto T = static_cast<double>(w.num_tokens()), H = static_cast<double>(init.num_heads),
             D = static_cast<double>(init.head_dim), size = static_cast<double>(dtype_size(w.dtype));
  // Of a sequence whose mini-batch begins with its first token G is not read, of one whose last token ends one W is
  // written; the model is read in any case.
  double read = 0, written = 0;
  for (const Sequence& s : w.sequences) {
    if (s.query_len == 0) continue;
    read += s.context_len % init.mini_batch_size == 0 ? 1 : 2;
    written += 1;
  }
  const double model = 4 * H * D * (D + 1);
  return {.read_bytes = size * (3 * T * H * D + H * D * (D + 3)) + 4 * T * H + 8 * T + read * model,
          .written_bytes = size * T * H * D + written * model,
          .matrix_flops = 4 * T * H * D * D,
          .vector_flops = 2 * T * H * D * D};
}

Tolerance TTTLinear::tolerance(const Init& init, DType dtype) {
  // Sums over keys, which the norms before and after divide by their spread.
  return rounding_tolerance(dtype, 64 * static_cast<double>(init.head_dim));
}

std::vector<Case<TTTLinear>> TTTLinear::cases() {
  Init one{.num_heads = 1, .head_dim = 1, .eps = 1e-2};
  Init odd{.num_heads = 3, .head_dim = 21, .mini_batch_size = 7, .scale = 0.37, .eps = 1e-3};
  Init published{.num_heads = 2, .head_dim = 64};
  return {
      {"one element", one, Workload::batch({{1, 0}})},
      {"step", published, Workload::batch({{1, 5}, {1, 0}, {1, 15}, {1, 16}})},
      {"step, odd", odd, Workload::batch({{1, 6}, {1, 7}, {1, 9}})},
      {"mini-batches", published, Workload::batch({{32, 0}, {33, 16}}, true)},
      {"odd boundaries", odd, Workload::batch({{1, 13}, {9, 5}, {23, 0}, {2, 4}}, true)},
      {"large heads", {.num_heads = 1, .head_dim = 136}, Workload::batch({{19, 3}}, true)},
      {"large mini-batch", {.num_heads = 2, .head_dim = 16, .mini_batch_size = 40}, Workload::batch({{90, 11}}, true)},
      {"a sequence without tokens", odd, Workload::batch({{0, 5}, {3, 5}, {0, 0}}, true)},
      {"no tokens", odd, Workload::batch({{0, 3}}, true)}};
}

std::string_view TTTLinear::refuse_call(Args args) const {
  if (args[5]->dtype() != DType::kF32 || args[3]->dtype() != DType::kF32) return "eta and ttt_state must be f32";
  if (!args[3]->rows_contiguous()) return "the last dimension of eta must be contiguous";
  if (args[4]->dtype() != DType::kI64 || !args[4]->contiguous()) return "positions must be i64, without gaps";
  std::string_view why = refuse_state(*args[5], *args[6], args[7], args[0]->size(0));
  return !why.empty() ? why : refuse_rows({&args[0], &args[1], &args[2], &args[8]});
}

namespace {

class TTTLinearOracle final : public TTTLinear {
 public:
  using TTTLinear::TTTLinear;

  void forward(Context&, View q, View k, View v, View eta, View positions, View ttt_state, View state_slots,
               OptView cu_seqlens, View out) override {
    for (int64_t s = 0; s < state_slots.size(0); ++s)
      for (int64_t h = 0; h < init_.num_heads; ++h) {
        const RecurrentSequence sequence = recurrent_sequence(state_slots, cu_seqlens, s);
        if (sequence.first >= sequence.last) continue;
        Model model(init_.head_dim), changes(init_.head_dim);
        for (int64_t i = 0; i <= init_.head_dim; ++i)
          for (int64_t j = 0; j < init_.head_dim; ++j) {
            model.at(i, j) = i < init_.head_dim ? get(W1(), h, i, j) : get(b1(), h, 0, j);
            if (sequence.slot >= 0) model.at(i, j) += get(ttt_state, sequence.slot, h, i, j);
            if (sequence.slot >= 0) changes.at(i, j) = get(ttt_state, sequence.slot, h, init_.head_dim + 1 + i, j);
          }
        for (int64_t t = sequence.first; t < sequence.last; ++t) {
          const auto place = static_cast<int64_t>(get(positions, t)) % init_.mini_batch_size;
          if (place == 0) changes.add(changes, -1);
          read_token(q, k, v, get(eta, t, h), t, h, model, changes, out);
          if (place + 1 < init_.mini_batch_size) continue;
          model.add(changes, -get(eta, t, h));
          changes.add(changes, -1);
        }
        for (int64_t i = 0; i <= init_.head_dim && sequence.slot >= 0; ++i)
          for (int64_t j = 0; j < init_.head_dim; ++j) {
            const double start = i < init_.head_dim ? get(W1(), h, i, j) : get(b1(), h, 0, j);
            set(ttt_state, model.at(i, j) - start, sequence.slot, h, i, j);
            set(ttt_state, changes.at(i, j), sequence.slot, h, init_.head_dim + 1 + i, j);
          }
      }
  }

 private:
  // A matrix, and below it a bias.
  struct Model {
    explicit Model(int64_t size) : D(size), values(static_cast<size_t>((size + 1) * size), 0) {}
    double& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i * D + j)]; }
    double at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * D + j)]; }
    void add(const Model& other, double factor) {
      for (size_t i = 0; i < values.size(); ++i) values[i] += factor * other.values[i];
    }
    int64_t D;
    std::vector<double> values;
  };

  // Element j of a row, less the mean, over the root of the variance and eps.
  struct Normed {
    Normed(const std::vector<double>& row, double eps) : values(row) {
      const auto n = static_cast<double>(row.size());
      double mean = 0, variance = 0;
      for (double x : row) mean += x / n;
      for (double x : row) variance += (x - mean) * (x - mean) / n;
      root = std::sqrt(variance + eps);
      for (double& x : values) x = (x - mean) / root;
    }
    std::vector<double> values;
    double root;
  };

  void read_token(const View& q, const View& k, const View& v, double eta, int64_t t, int64_t h, const Model& model,
                  Model& changes, const View& out) const {
    const int64_t D = init_.head_dim;
    const auto size = static_cast<size_t>(D);
    std::vector<double> z(size), g(size), o(size);
    for (int64_t j = 0; j < D; ++j) {
      double sum = model.at(D, j);
      for (int64_t i = 0; i < D; ++i) sum += get(k, t, h, i) * model.at(i, j);
      z[static_cast<size_t>(j)] = sum;
    }
    const Normed normed(z, init_.eps);
    double sum = 0, along = 0;
    for (size_t j = 0; j < size; ++j) {
      const auto at = static_cast<int64_t>(j);
      const double target = get(v, t, h, at) - get(k, t, h, at), weight = get(norm_weight(), h, at);
      g[j] = weight * (weight * normed.values[j] + get(norm_bias(), h, at) - target);
      sum += g[j];
      along += g[j] * normed.values[j];
    }
    const auto n = static_cast<double>(D);
    for (size_t j = 0; j < size; ++j) g[j] = (g[j] - (sum + normed.values[j] * along) / n) / normed.root;
    for (int64_t j = 0; j < D; ++j) {
      for (int64_t i = 0; i < D; ++i) changes.at(i, j) += get(k, t, h, i) * g[static_cast<size_t>(j)];
      changes.at(D, j) += g[static_cast<size_t>(j)];
    }
    for (int64_t j = 0; j < D; ++j) {
      double y = model.at(D, j) - eta * changes.at(D, j);
      for (int64_t i = 0; i < D; ++i)
        y += init_.query_scale() * get(q, t, h, i) * (model.at(i, j) - eta * changes.at(i, j));
      o[static_cast<size_t>(j)] = y;
    }
    const Normed result(o, init_.eps);
    for (int64_t j = 0; j < D; ++j) {
      const auto at = static_cast<size_t>(j);
      set(out, o[at] + result.values[at] * get(norm_weight(), h, j) + get(norm_bias(), h, j), t, h, j);
    }
  }
};

// It has no definition: what one token leaves to the next is no expression of the algebra, as of all recurrences here.
FK_OPERATOR(TTTLinear, TTTLinearOracle);

}  // namespace
}  // namespace fk
