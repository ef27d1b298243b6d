#include "validate/reference.h"

#include <algorithm>

#include "core/error.h"
#include "validate/inner_rounding.h"

namespace fk {
namespace {

// Operations and bytes per second of oracles, estimated: plain loops, most of them with get() and set().
constexpr double kOracleFlops = 5e8;
constexpr double kOracleBytes = 2e8;
// A vector operation of an oracle may be an exponential.
constexpr double kVectorWeight = 4;
// Limit for an oracle; waking more threads takes longer than small calls.
constexpr int kMostThreads = 8;
// Shorter calls are computed by one thread: on cores that others use, waiting for a second one takes longer.
constexpr double kWorthThreadsSeconds = 0.005;

BuildOptions oracles_only() {
  BuildOptions options;
  options.oracle = true;
  return options;
}

TensorSpec wide_spec(const TensorSpec& spec) {
  return {spec.shape, dtype_is_float(spec.dtype) ? DType::kF64 : spec.dtype};
}

void widen(const View& from, const View& to, ThreadPool& pool) {
  FK_CHECK(from.contiguous() && to.contiguous());
  // Codes and scales of quantised matrices stay what they are.
  if (to.dtype() != DType::kF64) return copy_elements(from, to);
  auto copy = [&](const auto* values, auto&& wide) {
    auto* out = to.ptr<double>();
    pool.parallel_for(from.numel(), int64_t{1} << 18, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = wide(values[i]);
    });
  };
  // There may be many weights: the two usual dtypes of models are read without a switch per element.
  if (to.dtype() != DType::kF64)
    copy_elements(from, to);
  else if (from.dtype() == DType::kBF16)
    copy(from.ptr<bf16>(), [](bf16 x) { return static_cast<double>(static_cast<float>(x)); });
  else if (from.dtype() == DType::kF32)
    copy(from.ptr<float>(), [](float x) { return static_cast<double>(x); });
  else
    copy_elements(from, to);
}

int threads_for(const OperatorInfo& info, const Fields& init, const Workload& largest) {
  if (reference_seconds(info, init, info.possible(init, largest)) < kWorthThreadsSeconds) return 1;
  return std::min(usable_cores(), kMostThreads);
}

Tensor widened(const View& from, ThreadPool& pool) {
  Tensor t(wide_spec(from.spec()));
  widen(from, t, pool);
  return t;
}

int64_t half(int64_t n) { return (n + 1) / 2; }

// The minimum that a workload should keep: with less, attention has nothing to weigh and tiles have no tail.
struct Least {
  size_t sequences;
  int64_t query;
  int64_t context;
};
constexpr Least kTelling = {2, 3, 17};
constexpr Least kSmallest = {1, 1, 1};

// One step smaller; false if it cannot shrink further.
bool make_smaller(Workload& w, const Least& least) {
  std::vector<Sequence>& s = w.sequences;
  auto halve_longest = [&](int64_t Sequence::*member, int64_t at_least) {
    int64_t most = 0;
    for (const Sequence& q : s) most = std::max(most, q.*member);
    if (most <= at_least) return false;
    for (Sequence& q : s)
      if (q.*member > std::max(at_least, most / 2)) q.*member = std::max(at_least, half(q.*member));
    return true;
  };
  // Removes every second sequence, so that the mix of decode and prefill stays.
  auto drop_half = [&](size_t at_least) {
    if (s.size() <= at_least) return false;
    std::vector<Sequence> kept;
    for (size_t i = 0; i < s.size(); i += 2) kept.push_back(s[i]);
    s = std::move(kept);
    return true;
  };
  return drop_half(std::max<size_t>(least.sequences, 4)) || halve_longest(&Sequence::query_len, least.query) ||
         halve_longest(&Sequence::context_len, least.context) || drop_half(least.sequences);
}

}  // namespace

std::vector<OptView> Expected::views() const {
  std::vector<OptView> views;
  for (const auto& t : args) views.push_back(t ? OptView(t->view()) : std::nullopt);
  return views;
}

Reference::Reference(const OperatorInfo& info, const Fields& init, const Workload& largest)
    : info_(info),
      tree_(info.build(with_dtype(init, DType::kF64), oracles_only())),
      pool_(threads_for(info, init, largest)) {}
Reference::~Reference() = default;

void Reference::bind(std::span<const Tensor> params) {
  std::vector<ParamSpec> specs = collect_params(*tree_);
  FK_CHECK(specs.size() == params.size());
  if (params_.empty()) {
    for (const ParamSpec& p : specs) params_.emplace_back(p.spec);  // f64, except what is f32 in any model, and codes
    tree_->bind([&](const std::string& name) -> View {
      for (size_t i = 0; i < specs.size(); ++i)
        if (specs[i].name == name) return params_[i];
      throw Error("The reference of {} has no parameter '{}'.", info_.name, name);
    });
  }
  for (size_t i = 0; i < params.size(); ++i) replace(i, params[i]);
}

void Reference::replace(size_t i, const Tensor& param) { widen(param, params_[i], pool_); }

Expected Reference::compute_rounded(const CallData& data, DType dtype, uint64_t seed) {
  InnerRounding rounding(dtype, seed);
  return compute(data, &rounding);
}

Expected Reference::compute(const CallData& data, CallObserver* observer) {
  Expected expected;
  for (const auto& given : data.given) {
    expected.args.emplace_back();
    if (given) expected.args.back() = widened(*given, pool_);
  }
  for (const Tensor& state : data.states) expected.states.push_back(widened(state, pool_));
  std::vector<View> states = state_views(expected.states);
  OutputSpecs outputs = tree_->outputs(expected.views());
  for (size_t i = 0; expected.args.size() < info_.args.size(); ++i) {
    expected.args.emplace_back();
    if (!outputs.specs[i]) continue;
    // An output of a fixed dtype (logits in f32) would round the reference.
    TensorSpec spec = *outputs.specs[i];
    if (dtype_is_float(spec.dtype)) spec.dtype = DType::kF64;
    expected.args.back().emplace(spec);
  }
  Arena arena;
  Context ctx{
      .pool = pool_, .arena = arena, .attention = &data.batch->attention(), .states = states, .observer = observer};
  tree_->call(ctx, expected.views());
  return expected;
}

double reference_seconds(const OperatorInfo& info, const Fields& init, const Workload& workload) {
  Cost cost = info.cost(init, workload);
  return std::max((cost.matrix_flops + kVectorWeight * cost.vector_flops) / kOracleFlops, cost.bytes() / kOracleBytes);
}

Workload shrink(const OperatorInfo& info, const Fields& init, Workload workload, double seconds) {
  constexpr double kWorthIt = 8;  // times as long, for a workload that is still a useful test
  auto too_long = [&](double limit) { return reference_seconds(info, init, info.possible(init, workload)) > limit; };
  while (too_long(seconds) && make_smaller(workload, kTelling)) {
  }
  while (too_long(kWorthIt * seconds) && make_smaller(workload, kSmallest)) {
  }
  return info.possible(init, workload);
}

Fields with_dtype(Fields init, DType dtype) {
  for (Field& f : init) {
    if (auto* nested = std::get_if<Fields>(&f.value))
      *nested = with_dtype(std::move(*nested), dtype);
    else if (f.name == "dtype")
      f.value = std::string(dtype_name(dtype));
  }
  return init;
}

}  // namespace fk
