#include "ops/l1/rotary_emb.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

namespace {

// Where the blend of yarn begins and ends, as indices of pairs.
struct YarnRange {
  double first, last;
};
YarnRange yarn_range(const RotaryEmbedding::Init& init) {
  const RopeScaling& scaling = init.rope_scaling;
  auto dims = static_cast<double>(init.rotary_dim),
       context = static_cast<double>(scaling.original_max_position_embeddings);
  // The pair that turns so many times in the original context.
  auto pair = [&](double turns) {
    return dims * std::log(context / (turns * 2 * std::numbers::pi)) / (2 * std::log(init.base));
  };
  YarnRange range{pair(scaling.beta_fast), pair(scaling.beta_slow)};
  if (scaling.truncate) range = {std::floor(range.first), std::ceil(range.last)};
  range = {std::max(range.first, 0.0), std::min(range.last, dims - 1)};
  if (range.first == range.last) range.last += 0.001;
  return range;
}

}  // namespace

std::vector<double> RotaryEmbedding::inverse_frequencies(const Init& init) {
  const RopeScaling& scaling = init.rope_scaling;
  std::vector<double> frequencies;
  for (int64_t i = 0; i < init.rotary_dim; i += 2) {
    double f = std::pow(init.base, -static_cast<double>(i) / static_cast<double>(init.rotary_dim));
    if (scaling.type == "linear") {
      f /= scaling.factor;
    } else if (scaling.type == "llama3") {
      double turns = static_cast<double>(scaling.original_max_position_embeddings) * f / (2 * std::numbers::pi);
      // 1 above high_freq_factor turns (kept), 0 below low_freq_factor turns (divided), linear between.
      double between = scaling.high_freq_factor - scaling.low_freq_factor;
      double keep = between > 0 ? std::clamp((turns - scaling.low_freq_factor) / between, 0.0, 1.0)
                                : (turns < scaling.low_freq_factor ? 0 : 1);
      f = keep * f + (1 - keep) * f / scaling.factor;
    } else if (scaling.type == "yarn") {
      YarnRange range = yarn_range(init);
      double divide = (static_cast<double>(i) / 2 - range.first) / (range.last - range.first);
      divide = std::clamp(divide, 0.0, 1.0);
      f = (1 - divide) * f + divide * f / scaling.factor;
    } else if (scaling.type == "proportional") {
      auto rotated = static_cast<int64_t>(scaling.partial_rotary_factor * static_cast<double>(init.rotary_dim) / 2);
      f = i / 2 < rotated ? f / scaling.factor : 0;
    } else if (scaling.type != "default") {
      throw Error("Rotary scaling of type '{}' is not known; known are default, linear, llama3, yarn and proportional.",
                  scaling.type);
    }
    frequencies.push_back(f);
  }
  return frequencies;
}

OutputSpecs RotaryEmbedding::outputs(const Init&, Args) { return {}; }

namespace {
int64_t query_heads(const Workload& w) { return w.width > 0 ? w.width : 3; }
int64_t key_heads(const Workload& w) { return w.kv_heads > 0 ? w.kv_heads : 1; }
}  // namespace

Inputs RotaryEmbedding::inputs(const Init& init, const Workload& w) {
  auto heads = [&](int64_t n) {
    return InputSpec{{{w.num_tokens(), n * init.head_size}, w.dtype}, Generator::normal()};
  };
  return {InputSpec{{{w.num_tokens()}, DType::kI64}, Generator::metadata(Generator::Kind::kPositions)},
          heads(query_heads(w)), w.optional_inputs ? std::optional(heads(key_heads(w))) : std::nullopt};
}

Cost RotaryEmbedding::cost(const Init& init, const Workload& w) {
  auto heads = static_cast<double>(query_heads(w) + (w.optional_inputs ? key_heads(w) : 0));
  double turned = static_cast<double>(w.num_tokens()) * heads * static_cast<double>(init.rotary_dim);
  double in_place = turned * static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = in_place + 8 * static_cast<double>(w.num_tokens()),
          .written_bytes = in_place,
          .vector_flops = 3 * turned};
}

Tolerance RotaryEmbedding::tolerance(const Init&, DType dtype) {
  Tolerance t = rounding_tolerance(dtype);
  return {t.relative, t.of_scale * 4};  // the difference of two products can cancel
}

std::vector<Case<RotaryEmbedding>> RotaryEmbedding::cases() {
  RopeScaling linear{.type = "linear", .factor = 8};
  RopeScaling llama3{.type = "llama3",
                     .factor = 8,
                     .low_freq_factor = 1,
                     .high_freq_factor = 4,
                     .original_max_position_embeddings = 64};
  RopeScaling yarn{.type = "yarn",
                   .factor = 32,
                   .original_max_position_embeddings = 64,
                   .beta_fast = 8,
                   .beta_slow = 0.5,
                   .truncate = false,
                   .attention_factor = 1.3465735902799727};
  RopeScaling proportional{.type = "proportional", .factor = 2, .partial_rotary_factor = 0.3};
  return {
      {"smallest", {.head_size = 2, .rotary_dim = 2}, Workload::tokens(1)},
      {"default",
       {.head_size = 64, .rotary_dim = 64, .base = 500000},
       Workload::batch({{1, 40}, {1, 7}, {9, 0}}, true)},
      {"odd half", {.head_size = 22, .rotary_dim = 22}, Workload::batch({{5, 100}}, true)},
      {"partial", {.head_size = 40, .rotary_dim = 10}, Workload::batch({{4, 3}}, true)},
      {"last elements",
       {.head_size = 24, .rotary_dim = 8, .rotary_offset = 16, .is_neox_style = false},
       Workload::batch({{1, 40}, {6, 11}}, true)},
      {"last elements, halves",
       {.head_size = 192, .rotary_dim = 64, .rotary_offset = 128},
       Workload::batch({{3, 11}}, true)},
      {"interleaved", {.head_size = 24, .rotary_dim = 24, .is_neox_style = false}, Workload::batch({{6, 11}}, true)},
      {"linear scaling",
       {.head_size = 32, .rotary_dim = 32, .rope_scaling = linear},
       Workload::batch({{7, 500}}, true)},
      {"llama3 scaling",
       {.head_size = 128, .rotary_dim = 128, .rope_scaling = llama3},
       Workload::batch({{3, 300}, {33, 0}}, true)},
      {"yarn",
       {.head_size = 64, .rotary_dim = 64, .base = 150000, .rope_scaling = yarn},
       Workload::batch({{3, 300}, {33, 0}}, true)},
      {"proportional",
       {.head_size = 48, .rotary_dim = 48, .base = 1e6, .rope_scaling = proportional},
       Workload::batch({{3, 300}, {33, 0}}, true)},
      {"far position", {.head_size = 64, .rotary_dim = 64}, Workload::batch({{2, 120000}}, true)},
      {"no tokens", {.head_size = 8, .rotary_dim = 8}, Workload::tokens(0, true)},
      {"large heads", {.head_size = 512, .rotary_dim = 512, .base = 1000000}, Workload::batch({{2, 9}}, true)},
  };
}

namespace {

class RotaryEmbeddingOracle final : public RotaryEmbedding {
 public:
  using RotaryEmbedding::RotaryEmbedding;

  void forward(Context&, View positions, View query, OptView key) override {
    std::vector<double> frequencies = inverse_frequencies(init_);
    for (int64_t t = 0; t < positions.size(0); ++t) {
      turn(query, t, get(positions, t), frequencies);
      if (key) turn(*key, t, get(positions, t), frequencies);
    }
  }

 private:
  void turn(const View& x, int64_t t, double position, const std::vector<double>& frequencies) const {
    int64_t half = init_.rotary_dim / 2;
    for (int64_t head = init_.rotary_offset; head < x.size(1); head += init_.head_size) {
      for (int64_t i = 0; i < half; ++i) {
        int64_t a = head + (init_.is_neox_style ? i : 2 * i);
        int64_t b = head + (init_.is_neox_style ? i + half : 2 * i + 1);
        double factor = init_.rope_scaling.attention_factor;
        double c = factor * std::cos(position * frequencies[i]), s = factor * std::sin(position * frequencies[i]);
        double xa = get(x, t, a), xb = get(x, t, b);
        set(x, xa * c - xb * s, t, a);
        set(x, xb * c + xa * s, t, b);
      }
    }
  }
};

FK_OPERATOR(RotaryEmbedding, RotaryEmbeddingOracle);

// Elements of a pair lie `half` apart, or side by side.
Expr turned(const RotaryEmbedding::Init& init, const Expr& positions, const Expr& x, DType real) {
  const int64_t T = x.size(0), heads = x.size(1) / init.head_size, half = init.rotary_dim / 2;
  const int pair = init.is_neox_style ? 2 : 3;
  Expr all = reshape(x, {T, heads, init.head_size});
  Expr pairs = reshape(slice(all, 2, init.rotary_offset, init.rotary_dim),
                       init.is_neox_style ? algebra::Extents{T, heads, 2, half} : algebra::Extents{T, heads, half, 2});
  // In double: a float has no digits left for the angle of a far position.
  Expr frequencies = algebra::table(RotaryEmbedding::inverse_frequencies(init), DType::kF64, {1, half});
  Expr angle = insert_axis(insert_axis(positions, 1) * frequencies, 1);  // [T, 1, half]
  angle = insert_axis(angle, pair);
  Expr c = cast(init.rope_scaling.attention_factor * cos(angle), real);
  Expr s = cast(init.rope_scaling.attention_factor * sin(angle), real);
  Expr sign = 2 * algebra::iota(pairs.shape(), pair) - 1;  // the first of a pair minus, the second plus its partner
  Expr rotated = reshape(pairs * c + sign * slice(pairs, pair, 1, 2, -1) * s, {T, heads, init.rotary_dim});
  if (init.rotary_dim < init.head_size) {
    Expr place = algebra::iota({init.head_size}, 0);
    if (init.rotary_offset > 0) place = place - static_cast<double>(init.rotary_offset);
    rotated = select(place < static_cast<double>(init.rotary_dim), gather(rotated, place, 2), all);
    if (init.rotary_offset > 0) rotated = select(place < 0, all, rotated);
  }
  return reshape(rotated, x.shape());
}

void define_rotary_emb(const RotaryEmbedding::Init& init, Definition& d) {
  for (const char* name : {"query", "key"})
    if (d.has(name)) d.result(name, turned(init, d.arg("positions"), d.arg(name), d.real()));
}
FK_DEFINITION(RotaryEmbedding, define_rotary_emb);

}  // namespace
}  // namespace fk
