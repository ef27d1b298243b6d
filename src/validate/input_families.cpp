#include "validate/input_families.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "ops/formats/weight_format.h"

namespace fk {
namespace {

template <class Value>
void rewrite(const View& v, Value&& value) {
  auto* address = static_cast<std::byte*>(v.data());
  size_t step = dtype_size(v.dtype());
  for (int64_t i = 0; i < v.numel(); ++i, address += step)
    store_element(address, v.dtype(), value(load_element(address, v.dtype()), i));
}

int64_t row_length(const View& v) { return v.rank() == 0 ? 1 : std::max<int64_t>(v.size(-1), 1); }

template <int kTimes>
void scaled_up(const View& v, const Stream&) {
  rewrite(v, [](double x, int64_t) { return x * kTimes; });
}

void scaled_down(const View& v, const Stream&) {
  rewrite(v, [](double x, int64_t) { return x * 1e-3; });
}

void shifted(const View& v, const Stream&) {
  rewrite(v, [](double x, int64_t) { return x + 5; });
}

// Few different values, so that several elements of a row share its maximum.
void ties(const View& v, const Stream&) {
  rewrite(v, [](double x, int64_t) { return std::clamp(std::round(x), -2.0, 2.0); });
}

// Three neighbours far above the rest of their row and close to each other: detects errors of a maximum per tile and of
// an approximated exponential.
void clustered_maxima(const View& v, const Stream& stream) {
  int64_t n = row_length(v);
  rewrite(v, [&](double x, int64_t i) {
    auto row = static_cast<uint64_t>(i / n);
    auto first = static_cast<int64_t>(stream.below(row, static_cast<uint64_t>(n)));
    int64_t distance = i % n - first;
    return distance >= 0 && distance < 3 ? 8 + static_cast<double>(distance) / 16 : x / 4;
  });
}

// Nearly the whole sum is in the last eighth of each row and in the last row, where tiles are incomplete.
void tail_mass(const View& v, const Stream&) {
  int64_t n = row_length(v), rows = v.numel() / n;
  rewrite(v, [&](double x, int64_t i) {
    bool tail = i % n >= n - std::max<int64_t>(n / 8, 1) || i / n == rows - 1;
    return tail ? x * 8 : x / 16;
  });
}

void sparse(const View& v, const Stream& stream) {
  rewrite(v, [&](double x, int64_t i) { return stream.uniform(static_cast<uint64_t>(i)) < 0.9 ? 0 : x; });
}

void zeros(const View& v, const Stream&) {
  rewrite(v, [](double, int64_t) { return 0.0; });
}

void small_integers(const View& v, const Stream& stream) {
  rewrite(v, [&](double, int64_t i) { return static_cast<double>(stream.below(static_cast<uint64_t>(i), 9)) - 4; });
}

void smaller_integers(const View& v, const Stream& stream) {
  rewrite(v, [&](double, int64_t i) { return static_cast<double>(stream.below(static_cast<uint64_t>(i), 5)) - 2; });
}

// Alternating signs, and a few channels far above the others.
void outliers(const View& v, const Stream& stream) {
  rewrite(v, [&](double x, int64_t i) {
    auto at = static_cast<uint64_t>(i);
    double sign = stream.u32(at) % 2 == 0 ? 1 : -1;
    return sign * x * (stream.u32(at) % 64 < 2 ? 6 : 1);
  });
}

// Above all others: a maximum does not see an element that becomes smaller.
void flip(const View& v, int64_t at) {
  double most = 4;
  rewrite(v, [&](double x, int64_t) {
    most = std::max(most, std::abs(x));
    return x;
  });
  rewrite(v, [&](double x, int64_t i) { return i == at ? most + 4 : x; });
}
void flip_last(const View& v, const Stream&) { flip(v, v.numel() - 1); }
void flip_one(const View& v, const Stream& stream) {
  if (v.numel() > 0) flip(v, static_cast<int64_t>(stream.below(0, static_cast<uint64_t>(v.numel()))));
}

constexpr InputFamily kFamilies[] = {
    {"standard"},
    {"scaled x0.001", scaled_down},
    {"scaled x10", scaled_up<10>},
    {"scaled x64", scaled_up<64>},
    {"shifted +5", shifted},
    {"ties", ties},
    {"clustered maxima", clustered_maxima},
    {"mass in the tail", tail_mass},
    {"sparse", sparse},
    {"zeros", zeros},
    {"outliers in the weights", nullptr, outliers},
    {"exact integers", small_integers, smaller_integers, true},
    {.name = "special values", .special = true},
};
constexpr InputFamily kFlipLast = {"last element flipped", flip_last};
constexpr InputFamily kFlipOne = {"one element flipped", flip_one};

int64_t between(const Stream& stream, uint64_t i, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(stream.below(i, static_cast<uint64_t>(high - low + 1)));
}

// One in four: no slot, an id below or above the table, or minus infinity, but not for a whole row.
void make_special(const View& v, const Generator& generator, const Stream& stream) {
  const bool ids = generator.kind == Generator::Kind::kIntegers, real = dtype_is_float(v.dtype());
  const int64_t n = row_length(v);
  rewrite(v, [&](double x, int64_t i) {
    const uint32_t r = stream.u32(static_cast<uint64_t>(i));
    if (r % 4 != 0) return x;
    if (real) return i % n == 0 ? x : -std::numeric_limits<double>::infinity();
    return ids && r / 4 % 2 == 0 ? generator.b : -1.0;
  });
}

// Attention requires decoding sequences first.
void order(std::vector<Sequence>& sequences) {
  std::stable_partition(sequences.begin(), sequences.end(),
                        [](const Sequence& s) { return s.query_len == 1 && s.context_len > 0; });
}

}  // namespace

std::span<const InputFamily> input_families() { return kFamilies; }
const InputFamily& standard_family() { return kFamilies[0]; }
const InputFamily& flip_last_family() { return kFlipLast; }
const InputFamily& flip_one_family() { return kFlipOne; }

const InputFamily& family_named(std::string_view name) {
  for (const InputFamily& f : kFamilies)
    if (f.name == name) return f;
  std::string known;
  for (const InputFamily& f : kFamilies) known += fmt::format("{}'{}'", known.empty() ? "" : ", ", f.name);
  throw Error("There is no input family '{}'; there are {}.", name, known);
}

bool may_be_rewritten(const InputSpec& spec) {
  using Kind = Generator::Kind;
  return dtype_is_float(spec.spec.dtype) &&
         (spec.generator.kind == Kind::kNormal || spec.generator.kind == Kind::kIntegers);
}

bool has_special_values(const Inputs& specs) {
  return std::any_of(specs.begin(), specs.end(), [](const auto& s) { return s && s->generator.may_be_special; });
}

void apply_to_inputs(const InputFamily& family, const Node& root, const Inputs& specs, CallData& data, uint64_t seed) {
  for (size_t i = 0; family.special && i < specs.size(); ++i)
    if (specs[i] && specs[i]->generator.may_be_special)
      make_special(*data.given[i], specs[i]->generator,
                   Stream(seed, fmt::format("{} {}", family.name, root.info().args[i].name)));
  if (family.inputs == nullptr) return;
  for (size_t i = 0; i < specs.size(); ++i)
    if (specs[i] && may_be_rewritten(*specs[i]))
      family.inputs(*data.given[i], Stream(seed, fmt::format("{} {}", family.name, root.info().args[i].name)));
  for (size_t i = 0; i < data.states.size(); ++i)
    if (dtype_is_float(data.states[i].view().dtype()))
      family.inputs(data.states[i], Stream(seed, fmt::format("{} state {}", family.name, data.state_specs[i].name)));
}

void apply_to_weights(const InputFamily& family, std::span<const ParamSpec> specs, std::span<const Tensor> params,
                      uint64_t seed) {
  if (family.weights == nullptr) return;
  FK_CHECK(specs.size() == params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    Stream stream(seed, fmt::format("{} weight {}", family.name, i));
    const View& weight = params[i].view();
    // Scales of a quantised matrix are numbers like others, but products with codes are not exact once activations are
    // rounded. Codes cannot be changed one by one: they become others of the same distribution.
    if (specs[i].fill && family.exact) continue;
    if (specs[i].fill && (!dtype_is_float(weight.dtype()) || dtype_size(weight.dtype()) == 1)) {
      fill(weight, *specs[i].fill, seed, fmt::format("{} weight {}", family.name, i), BatchMetadata(Workload{}, seed));
    } else if (!specs[i].format.empty()) {
      const WeightFormat& format = weight_format(specs[i].format);
      auto* blocks = static_cast<std::byte*>(weight.data());
      Tensor values({weight.size(0), format.row_elements(weight.size(1))}, DType::kF32);
      dequantise(format, blocks, values.view().numel(), values.ptr<float>());
      family.weights(values, stream);
      quantise(format, values.ptr<float>(), values.view().numel(), blocks);
    } else if (dtype_is_float(weight.dtype())) {
      family.weights(weight, stream);
    }
  }
}

Workload random_workload(const Workload& like, const Stream& stream) {
  Workload w = like;
  w.sequences.clear();
  int64_t most = std::min<int64_t>(2 * like.num_sequences(), like.num_sequences() + 3);
  int64_t count = between(stream, 0, 1, most);
  for (int64_t i = 0; i < count; ++i) {
    auto at = static_cast<uint64_t>(8 + 4 * i);
    const Sequence& from = like.sequences[stream.below(at, like.sequences.size())];
    int64_t longest = from.query_len > 0 ? from.query_len : 4;  // a batch without tokens has no limit
    w.sequences.push_back(
        {between(stream, at + 1, 1, longest), from.context_len > 0 ? between(stream, at + 2, 1, from.context_len) : 0});
  }
  order(w.sequences);
  w.optional_inputs = stream.u32(4) % 2 == 0;
  if (like.width > 1) w.width = between(stream, 5, (like.width + 1) / 2, like.width);
  return w;
}

Workload ragged_workload(const Workload& like) {
  Workload w = like;
  Sequence longest = like.sequences.front();
  for (const Sequence& s : like.sequences)
    if (s.query_len + s.context_len > longest.query_len + longest.context_len) longest = s;
  longest.query_len = std::max<int64_t>(longest.query_len, 1);
  Sequence shortest{1, std::min<int64_t>(longest.context_len, 1)};
  w.sequences = {shortest, longest, shortest};
  order(w.sequences);
  return w;
}

}  // namespace fk
