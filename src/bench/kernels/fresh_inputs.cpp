#include "bench/kernels/fresh_inputs.h"

#include <algorithm>
#include <cmath>

#include "bench/kernels/other_routing.h"

namespace fk {
namespace {

// Families with a set of their own. "scaled x0.001" and "scaled x10" are factors here and need no set.
constexpr std::string_view kFamilies[] = {"shifted +5", "ties", "clustered maxima", "mass in the tail",
                                          "exact integers"};

// Families that calls are judged on but not timed:
// - "scaled x64": nearly every exponential of such numbers is zero or subnormal. A correct kernel may skip most of
//   them, and one that does not is slowed down by numbers that do not occur in models;
// - "zeros" and "sparse": a correct kernel may skip zeros, and would be faster only on inputs that do not occur in
//   models; a GPU also raises its clock on them.
constexpr std::string_view kUntimedFamilies[] = {"scaled x64", "zeros", "sparse"};

// Making the sets of families takes up to 30 ns per element; this must not delay a scenario much. For larger inputs
// there are fewer sets, and different ones in every run.
constexpr int64_t kMostElements = int64_t{8} << 20;
// A small tensor is taken from a set of this size, or it would be the same in every call.
constexpr int64_t kLeastElements = 4096;

// Factors are powers of two, which are exact: from 1/8 to 8, so that the mean square is not known, and exponentials of
// logits (standard deviation 3) may overflow if the maximum was not subtracted.
constexpr int kLeastExponent = -3, kMostExponent = 3, kTinyExponent = -10;

// A composition uses intermediate results, and attention scores grow with the square of the inputs: the rounding errors
// of intermediate results would be larger than the tolerance of the result.
constexpr int kMostExponentOfCompositions = 1;

int64_t elements_of(const CallData& data) {
  int64_t n = 0;
  for (const auto& t : data.given) n += t ? t->view().numel() : 0;
  for (const Tensor& t : data.states) n += t.view().numel();
  return n;
}

CallData copy_of(const CallData& from) {
  CallData to;
  for (const auto& t : from.given) {
    to.given.emplace_back();
    if (t) to.given.back() = copy_of(*t);
  }
  for (const Tensor& t : from.states) to.states.push_back(copy_of(t));
  to.state_specs = from.state_specs;
  to.row_gaps = from.row_gaps;
  to.batch = from.batch;
  return to;
}

}  // namespace

FreshInputs::FreshInputs(const Node& root, const InputMaker& maker, const Workload& workload, uint64_t seed)
    : root_(root),
      workload_(workload),
      seed_(seed),
      specs_(maker.specs(root, workload)),
      random_(seed, "fresh inputs"),
      shapes_(maker.make_shapes(root, workload)) {
  int most = root.info().level > 1 ? kMostExponentOfCompositions : kMostExponent;
  for (const std::optional<InputSpec>& spec : specs_) {
    bool scaled = spec && may_be_rewritten(*spec);
    changes_.push_back({.renewed = spec && !spec->generator.is_metadata(), .scaled = scaled, .most_exponent = most});
  }
  // Keys of earlier tokens are not larger than those that a call adds. In a whole model they are not scaled: it rounds
  // so often that its tolerance allows nothing more.
  changes_.resize(specs_.size() + shapes_.states.size(),
                  {.renewed = true, .scaled = root.info().level < 4, .most_exponent = 0});
  add_sets(maker, seed);
}

void FreshInputs::add_sets(const InputMaker& maker, uint64_t seed) {
  sets_.push_back({"standard", nullptr, made_larger(maker.make(root_, workload_, seed), seed)});
  if (maker.has_recorded()) {
    recorded_ = sets_.size();
    sets_.push_back({"recorded", nullptr, std::make_unique<CallData>(maker.make_recorded(root_, workload_, seed))});
  }
  if (std::none_of(changes_.begin(), changes_.end(), [](const Change& c) { return c.scaled; })) return;
  others_ = {{0, Factors::kOneAPiece}, {0, Factors::kTiny}};
  // As many of each kind as there is time for, different ones in every run.
  const auto most = static_cast<size_t>(kMostElements / (elements_of(*sets_[0].data) + 1));
  auto drawn = [&](std::span<const std::string_view> families) {
    std::vector<std::string_view> names(families.begin(), families.end());
    for (size_t i = names.size() - 1; i > 0; --i) std::swap(names[i], names[below(i + 1)]);
    names.resize(std::min(names.size(), most));
    return names;
  };
  for (std::string_view name : drawn(kFamilies)) {
    for (Factors factors : {Factors::kOneEach, Factors::kOneAPiece}) others_.push_back({sets_.size(), factors});
    sets_.push_back({name, &family_named(name), nullptr});
  }
  for (std::string_view name : drawn(kUntimedFamilies)) {
    untimed_.push_back({sets_.size(), Factors::kNone});
    sets_.push_back({name, &family_named(name), nullptr});
  }
}

// With more elements for tensors that are small.
std::unique_ptr<CallData> FreshInputs::made_larger(CallData data, uint64_t seed) const {
  for (size_t i = 0; i < data.given.size(); ++i) {
    if (!changes_[i].renewed || data.given[i]->view().rank() == 0) continue;
    TensorSpec spec = data.given[i]->view().spec();
    int64_t n = spec.shape.numel();
    if (n == 0 || n >= kLeastElements) continue;
    spec.shape[0] *= (kLeastElements + n - 1) / n;
    data.given[i].emplace(spec);
    fill(*data.given[i], specs_[i]->generator, seed, root_.info().args[i].name, *data.batch);
  }
  return std::make_unique<CallData>(std::move(data));
}

// The standard set with the family applied to it, and another batch: its tables have another order.
std::unique_ptr<CallData> FreshInputs::of_family(const InputFamily& family) const {
  auto data = std::make_unique<CallData>(copy_of(*sets_[0].data));
  uint64_t seed = stream_key(seed_, family.name);
  data->batch = std::make_shared<BatchMetadata>(workload_, seed);
  for (size_t i = 0; i < specs_.size(); ++i)
    if (specs_[i] && !changes_[i].renewed)
      fill(*data->given[i], specs_[i]->generator, seed, root_.info().args[i].name, *data->batch);
  apply_to_inputs(family, root_, specs_, *data, seed);
  return data;
}

void FreshInputs::repeat(int slot, const Choice& choice) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  s.choice = choice;
  s.made = false;
}

void FreshInputs::next(int slot, bool timed) {
  if (slots_.size() <= static_cast<size_t>(slot)) slots_.resize(static_cast<size_t>(slot) + 1);
  Slot& s = slots_[static_cast<size_t>(slot)];
  PhiloxBlock drawn = random_.block(draws_++);
  Choice& c = s.choice;
  c.key = (uint64_t{drawn[0]} << 32) | drawn[1];
  s.made = false;
  auto take = [&](const Kind& kind) { c.set = kind.set, c.factors = kind.factors; };
  if (!timed && !untimed_.empty())
    take(untimed_[below(untimed_.size())]);
  else if (recorded_ != 0 && below(2) == 0)
    take({recorded_, Factors::kNone});
  else if (others_.empty() || below(2) == 0)
    take({0, Factors::kOneEach});
  else
    take(others_[below(others_.size())]);
  Set& set = sets_[c.set];
  if (!set.data) set.data = of_family(*set.family);
}

const View& FreshInputs::tensor_of(const CallData& data, size_t tensor) const {
  size_t args = data.given.size();
  return tensor < args ? data.given[tensor]->view() : data.states[tensor - args].view();
}

std::optional<CallMemory::MadeFrom> FreshInputs::pieces(int slot, size_t tensor) const {
  const Change& change = changes_[tensor];
  if (!change.renewed) return std::nullopt;
  const Choice& c = choice(slot);
  const View &set = tensor_of(*sets_[c.set].data, tensor), &shape = tensor_of(shapes_, tensor);
  PhiloxBlock drawn = Stream(c.key).block(tensor);
  Pieces p{.elements = shape.numel(),
           .element_bytes = static_cast<int64_t>(dtype_size(shape.dtype())),
           .key = (uint64_t{drawn[0]} << 32) | drawn[1],
           .set_elements = set.numel()};
  if (change.scaled && c.factors != Factors::kNone) {
    store_float_format(p, shape.dtype());
    p.least_exponent = kLeastExponent;
    p.most_exponent = change.most_exponent;
    if (c.factors == Factors::kOneEach)
      p.least_exponent = p.most_exponent =
          kLeastExponent + static_cast<int>(drawn[2] % static_cast<uint32_t>(p.most_exponent - kLeastExponent + 1));
    if (c.factors == Factors::kTiny) p.least_exponent = p.most_exponent = kTinyExponent;
  }
  return CallMemory::MadeFrom{set, p};
}

const CallData& FreshInputs::current(int slot) {
  Slot& s = slots_[static_cast<size_t>(slot)];
  if (s.made) return s.data;
  CallData& data = s.data;
  if (data.given.empty() && data.states.empty()) data = copy_of(shapes_);
  const CallData& set = *sets_[s.choice.set].data;
  data.batch = set.batch;
  size_t args = data.given.size();
  for (size_t i = 0; i < args + data.states.size(); ++i) {
    if (i < args && !data.given[i]) continue;
    const View& to = tensor_of(data, i);
    if (std::optional<CallMemory::MadeFrom> from = pieces(slot, i))
      put_together(to.data(), from->set.data(), from->pieces);
    else
      copy_elements(tensor_of(set, i), to);
  }
  reorder_routing(specs_, data, s.choice.key);
  s.made = true;
  return data;
}

}  // namespace fk
