#include "tests/validate/fake_subject.h"

#include <cstring>

#include "core/error.h"

namespace fk::validate {

Tensor clone(const View& view) {
  Tensor t(view.spec());
  if (view.numel() > 0) std::memcpy(t.view().data(), view.data(), view.size_bytes());
  return t;
}

void each_element(const View& view, const std::function<double(double, int64_t)>& value) {
  size_t step = dtype_size(view.dtype());
  auto* at = static_cast<std::byte*>(view.data());
  for (int64_t i = 0; i < view.numel(); ++i, at += step)
    store_element(at, view.dtype(), value(load_element(at, view.dtype()), i));
}

FakeSubject::FakeSubject(const OperatorInfo& info, const Fields& init, const BuildOptions& options)
    : info_(info), node_(info.build(init, options)) {}

std::optional<Failure> FakeSubject::bind(std::span<const Tensor> params) {
  if (bind_once && bound_) return std::nullopt;
  bound_ = true;
  params_.clear();
  for (const Tensor& p : params) {
    params_.push_back(clone(p));
    if (ignore_weights) each_element(params_.back(), [](double, int64_t) { return 1.0; });
  }
  std::vector<ParamSpec> specs = collect_params(*node_);
  node_->bind([&](const std::string& name) -> View {
    for (size_t i = 0; i < specs.size(); ++i)
      if (specs[i].name == name) return params_[i];
    throw Error("no parameter '{}'", name);
  });
  return std::nullopt;
}

CallOutcome FakeSubject::call(const CallData& data, Placement placement) {
  if (placement == Placement::kNew) ++address_;
  CallOutcome outcome;
  outcome.poison = 0xa5;
  std::vector<OptView> args;
  for (size_t i = 0; i < data.given.size(); ++i) {
    outcome.written.emplace_back();
    if (data.given[i] && info_.args[i].role == Role::kState) outcome.written.back() = clone(*data.given[i]);
    if (!data.given[i])
      args.emplace_back();
    else
      args.push_back(outcome.written.back() ? outcome.written.back()->view() : data.given[i]->view());
  }
  OutputSpecs outputs = node_->outputs(args);
  for (size_t i = 0; args.size() < info_.args.size(); ++i) {
    outcome.written.emplace_back();
    if (outputs.specs[i]) {
      outcome.written.back().emplace(*outputs.specs[i]);
      std::memset(outcome.written.back()->view().data(), *outcome.poison, outcome.written.back()->view().size_bytes());
    }
    args.push_back(outcome.written.back() ? OptView(outcome.written.back()->view()) : std::nullopt);
  }
  for (const Tensor& state : data.states) outcome.states.push_back(clone(state));
  std::vector<View> states = state_views(outcome.states);
  static ThreadPool pool(1);
  Arena arena;
  Context ctx{.pool = pool, .arena = arena, .attention = &data.batch->attention(), .states = states};
  node_->call(ctx, args);
  if (after) after({data, outcome, params_, calls_, address_});
  ++calls_;
  return outcome;
}

}  // namespace fk::validate
