#include "compiler/plan/region_check.h"

#include <fmt/format.h>

#include <map>

#include "compiler/plan/host_copy.h"
#include "compiler/plan/region_program.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "ops/algebra/evaluate.h"

namespace fk {
namespace {

std::vector<algebra::Values> meant(const GraphBody& flat, const Region& region, const BatchSizes& sizes,
                                   const RegionMemory& memory) {
  RegionPrograms programs(flat, sizes);
  RegionProgram program = programs.of(region);
  if (!program.refusal.empty()) throw Error("{}", program.refusal);
  std::map<std::string, algebra::Expr> by_name;
  for (const algebra::NamedExpr& r : RegionPrograms::meaning(program)) by_name[r.name] = r.expr;
  std::vector<algebra::Expr> results;
  for (size_t i = 0; i < region.outputs.size(); ++i) results.push_back(by_name.at(fmt::format("y{}", i)));
  algebra::Environment environment;
  environment.input = [&](const algebra::Head& input) {
    return algebra::load_values(memory.host_inputs()[static_cast<size_t>(std::stoi(input.name.substr(1)))]);
  };
  return algebra::evaluate(results, environment);
}

}  // namespace

Context context_on(Device device, ThreadPool& pool, Arena& arena) {
  Context ctx{.pool = pool, .arena = arena};
  if (device != kCpu) ctx.stream = device_runtime(device).stream();
  return ctx;
}

RegionCheck::RegionCheck(const GraphBody& flat, const FoundRegion& found, GraphPhase phase, int64_t rows, uint64_t seed,
                         Device device, ThreadPool& pool)
    : region_(found.region),
      rows_(rows),
      device_(device),
      pool_(pool),
      ours_(flat, found, trial_sizes(found, phase, rows, false), seed, device) {
  const BatchSizes sizes = trial_sizes(found, phase, rows, false);
  RegionMemory theirs(flat, found, sizes, seed, device);
  std::vector<algebra::Values> want = meant(flat, region_, sizes, ours_);
  for (const View& v : ours_.outputs()) before_.push_back(host_copy(v));
  const Tolerance tolerance = theirs.tolerance();
  Arena arena(device);
  Context ctx = context_on(device, pool, arena);
  theirs.call(ctx);
  std::vector<View> called = theirs.called();
  for (size_t i = 0; i < called.size(); ++i) {
    const bool real = dtype_is_float(called[i].dtype());
    references_.emplace_back(called[i].shape(), real ? DType::kF64 : called[i].dtype());
    algebra::store_values(*want[i], references_.back().view());
    Tensor baseline = host_copy(called[i]);
    Calibration calibration = calibrate(baseline.view(), references_.back().view(), tolerance, tolerance);
    bounds_.push_back(calibration.bounds);
    if (!calibration.usable && unusable_.empty())
      unusable_ =
          fmt::format("the calls themselves are off by {:.3g} tolerances of what their definitions give, in result {}",
                      calibration.baseline_ratio, i);
  }
}

std::string RegionCheck::run(RegionKernel& kernel) {
  end_ = TrialEnd::kFailed;
  ours_.poison_outputs();
  if (std::string_view why = kernel.refuse(ours_.inputs(), ours_.outputs()); !why.empty())
    return fmt::format("it refuses {} rows: {}", rows_, why);
  Arena arena(device_);
  Context ctx = context_on(device_, pool_, arena);
  kernel.run(ctx, ours_.inputs(), ours_.outputs());
  end_ = TrialEnd::kCallsOff;
  if (!unusable_.empty()) return unusable_;
  end_ = TrialEnd::kWrong;
  if (const std::optional<size_t> i = ours_.overrun())
    return fmt::format("with {} rows it writes behind the end of result {}", rows_, *i);
  for (size_t i = 0; i < region_.outputs.size(); ++i) {
    Tensor result = host_copy(ours_.outputs()[i]);
    View old = before_[i].view();
    Comparison compared =
        compare(result.view(), references_[i].view(), bounds_[i], region_.outputs[i].updates >= 0 ? &old : nullptr);
    if (!compared.ok()) return fmt::format("with {} rows, result {}: {}", rows_, i, compared.sentence);
  }
  end_ = TrialEnd::kRight;
  return {};
}

}  // namespace fk
