// Wrong kernels of every single-kernel operator, made by changing what a right one reads: they leave out the end of an
// input, an optional argument, a weight or a constructor argument, take indices for ordered, or answer with an old
// result. The judge must refuse each that writes other values.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "core/error.h"
#include "tests/validate/fake_subject.h"
#include "validate/judge.h"
#include "validate/reference.h"
#include "validate/task_check.h"

namespace fk::validate {
namespace {

// A wrong kernel: the right one on other data.
struct Mutant {
  std::string name;
  std::function<void(CallData&)> inputs = {};
  std::function<void(std::vector<Tensor>&)> weights = {};
  Fields init = {};  // empty: as it is
  bool remembers = false;
};

CallData copy_of_call(const CallData& data) {
  CallData copy;
  for (const auto& t : data.given) {
    copy.given.emplace_back();
    if (t) copy.given.back() = clone(*t);
  }
  copy.row_gaps = data.row_gaps;
  copy.state_specs = data.state_specs;
  for (const Tensor& t : data.states) copy.states.push_back(clone(t));
  copy.batch = data.batch;
  return copy;
}

class MutantSubject : public Subject {
 public:
  MutantSubject(const OperatorInfo& info, const Fields& init, const Mutant& mutant)
      : mutant_(mutant), right_(info, init), wrong_(info, mutant.init.empty() ? init : mutant.init) {}

  std::optional<Failure> bind(std::span<const Tensor> params) override {
    right_.bind(params);
    std::vector<Tensor> changed;
    for (const Tensor& p : params) changed.push_back(clone(p));
    if (mutant_.weights) mutant_.weights(changed);
    answers_.clear();
    return wrong_.bind(changed);
  }

  CallOutcome call(const CallData& data, Placement placement) override {
    CallData changed = copy_of_call(data);
    if (mutant_.inputs) mutant_.inputs(changed);
    CallOutcome outcome = wrong_.call(changed, placement);
    CallOutcome right = right_.call(data, placement);
    if (mutant_.remembers) outcome = remembered(data, std::move(outcome));
    differs_ = differs_ || !same(outcome, right);
    return outcome;
  }

  bool differs() const { return differs_; }  // from the right kernel, in any bit of any call

 private:
  static bool same(const CallOutcome& a, const CallOutcome& b) {
    auto equal = [](const Tensor& x, const Tensor& y) {
      return x.view().size_bytes() == y.view().size_bytes() &&
             (x.view().numel() == 0 || std::memcmp(x.view().data(), y.view().data(), x.view().size_bytes()) == 0);
    };
    for (size_t i = 0; i < a.written.size(); ++i)
      if (a.written[i] && b.written[i] && !equal(*a.written[i], *b.written[i])) return false;
    for (size_t i = 0; i < a.states.size(); ++i)
      if (!equal(a.states[i], b.states[i])) return false;
    return true;
  }

  // The answer to an earlier call whose tensors begin and end with the same bytes.
  CallOutcome remembered(const CallData& data, CallOutcome outcome) {
    std::string key;
    for (const auto& t : data.given) {
      if (!t) {
        key += '-';
        continue;
      }
      const View& v = t->view();
      for (int d = 0; d < v.rank(); ++d) key += fmt::format("{},", v.size(d));
      const auto* bytes = static_cast<const char*>(v.data());
      const size_t n = std::min<size_t>(v.size_bytes(), 64);
      key.append(bytes, n);
      key.append(bytes + v.size_bytes() - n, n);
    }
    auto [at, is_new] = answers_.try_emplace(key);
    if (is_new) {
      for (const auto& t : outcome.written) {
        at->second.emplace_back();
        if (t) at->second.back() = clone(*t);
      }
      return outcome;
    }
    for (size_t i = 0; i < outcome.written.size(); ++i)
      if (outcome.written[i] && at->second[i]) outcome.written[i] = clone(*at->second[i]);
    return outcome;
  }

  const Mutant& mutant_;
  FakeSubject right_, wrong_;
  std::map<std::string, std::vector<std::optional<Tensor>>> answers_;
  bool differs_ = false;
};

// The last 3 % of every row, at least one element.
void clear_tail(const View& v) {
  if (v.rank() == 0 || v.numel() == 0) return;
  const int64_t n = v.size(-1), kept = n - std::max<int64_t>(1, n * 3 / 100);
  if (n < 2) return;
  each_element(v, [&](double x, int64_t i) { return i % n < kept ? x : 0; });
}

void put_in_order(const View& v) {
  std::vector<double> values;
  each_element(v, [&](double x, int64_t) { return values.push_back(x), x; });
  std::sort(values.begin(), values.end());
  each_element(v, [&](double, int64_t i) { return values[static_cast<size_t>(i)]; });
}

// One after the other from the smallest, as far as there are such values.
void count_up(const View& v) {
  double low = INFINITY, high = -INFINITY;
  each_element(v, [&](double x, int64_t) { return low = std::min(low, x), high = std::max(high, x), x; });
  if (v.numel() == 0) return;
  each_element(v, [&](double, int64_t i) { return low + std::fmod(static_cast<double>(i), high - low + 1); });
}

// Other numbers of constructors are sizes, which the tensors of a call must have.
bool is_option(std::string_view name) {
  return name == "sliding_window" || name == "attention_chunk_size" || name == "topk_group";
}

// `flags` too: they decide which inputs a call needs, so not every case fits both values.
void add_constructor_mutants(const OperatorInfo& info, const Fields& init, bool flags, std::vector<Mutant>& mutants) {
  for (const Field& f : init) {
    if (f.name == "dtype") continue;
    std::vector<FieldValue> others;
    if (const auto* flag = std::get_if<bool>(&f.value); flag != nullptr && flags) others = {!*flag};
    if (std::holds_alternative<double>(f.value)) others = {0.0, 1.0};
    if (std::holds_alternative<int64_t>(f.value) && is_option(f.name)) others = {int64_t{0}, int64_t{1}};
    for (const FieldValue& other : others) {
      Fields changed = init;
      set_field(changed, f.name, other);
      if (changed == init) continue;
      try {  // sizes cannot be changed
        std::unique_ptr<Node> was = info.build(init, {}), is = info.build(changed, {});
        std::vector<ParamSpec> a = collect_params(*was), b = collect_params(*is);
        bool same = a.size() == b.size();
        for (size_t i = 0; same && i < a.size(); ++i) same = a[i].spec.shape == b[i].spec.shape;
        if (!same) continue;
      } catch (const std::exception&) {
        continue;
      }
      mutants.push_back(
          {.name = fmt::format("takes {} for {}", f.name, fields_text({{f.name, other}})), .init = std::move(changed)});
    }
  }
}

std::vector<Mutant> mutants_of(const OperatorInfo& info, const Fields& init, const Workload& workload) {
  std::vector<Mutant> mutants;
  std::unique_ptr<Node> node = info.build(init, {});
  CallData data = make_call_data(*node, workload, 1);
  const Inputs specs = contract_inputs().specs(*node, workload);
  for (size_t i = 0; i < data.given.size(); ++i) {
    if (!data.given[i]) continue;
    const std::string name(info.args[i].name);
    const DType dtype = data.given[i]->view().dtype();
    auto change = [&](std::string what, std::function<void(const View&)> how) {
      mutants.push_back({.name = fmt::format("{} {}", what, name), .inputs = [i, how](CallData& d) {
                           if (d.given[i]) how(*d.given[i]);
                         }});
    };
    // Another table could be invalid, and without one a cache is read as something else.
    const bool is_table = !specs[i] || specs[i]->generator.kind > Generator::Kind::kConstant;
    if (info.args[i].optional && !is_table)
      mutants.push_back({.name = "without " + name, .inputs = [i](CallData& d) { d.given[i].reset(); }});
    if (dtype_is_float(dtype)) {
      change("without the end of", clear_tail);
    } else if (!is_table) {
      change("in order:", put_in_order);
      change("counts up:", count_up);
    }
  }
  std::vector<ParamSpec> params = collect_params(*node);
  for (size_t i = 0; i < params.size(); ++i) {
    auto change = [&](std::string what, std::function<void(const View&)> how) {
      mutants.push_back({.name = fmt::format("{} {}", what, params[i].name),
                         .weights = [i, how](std::vector<Tensor>& all) { how(all[i]); }});
    };
    const DType dtype = params[i].spec.dtype;
    if (!params[i].format.empty()) continue;
    change("without", [](const View& v) { each_element(v, [](double, int64_t) { return 0.0; }); });
    if (!dtype_is_float(dtype)) continue;
    change("ones for", [](const View& v) { each_element(v, [](double, int64_t) { return 1.0; }); });
    change("without the end of", clear_tail);
  }
  mutants.push_back({.name = "old answers", .remembers = true});
  return mutants;
}

class Mutants : public testing::TestWithParam<const OperatorInfo*> {};

// Cases that a task check finds valid, in f32; the one with the most inputs is first.
std::vector<OperatorInfo::ErasedCase> cases_of(const OperatorInfo& info) {
  std::vector<OperatorInfo::ErasedCase> valid;
  ptrdiff_t most = -1;
  for (OperatorInfo::ErasedCase& c : info.cases()) {
    c.init = with_dtype(c.init, DType::kF32);
    c.workload.dtype = DType::kF32;
    if (c.workload.num_tokens() == 0) continue;
    FakeSubject baseline(info, c.init);
    if (!check_task(info, c.init, c.workload, baseline, {.seed = 5, .oracle_seconds = 0.002}).valid()) continue;
    CallData data = make_call_data(*info.build(c.init, {}), c.workload, 1);
    ptrdiff_t given = std::count_if(data.given.begin(), data.given.end(), [](const auto& t) { return t.has_value(); });
    valid.push_back(std::move(c));
    if (given > most) std::swap(valid.front(), valid.back());
    most = std::max(most, given);
  }
  return valid;
}

TEST_P(Mutants, SlowAreRefused) {
  const OperatorInfo& info = *GetParam();
  std::vector<OperatorInfo::ErasedCase> cases = cases_of(info);
  if (cases.empty()) GTEST_SKIP() << "no case of it tells right from wrong";
  for (size_t i = 0; i < cases.size(); ++i) {
    const OperatorInfo::ErasedCase& c = cases[i];
    std::vector<Mutant> mutants;
    if (i == 0) mutants = mutants_of(info, c.init, c.workload);
    add_constructor_mutants(info, c.init, i == 0, mutants);
    for (const Mutant& mutant : mutants) {
      try {
        FakeSubject baseline(info, c.init);
        MutantSubject wrong(info, c.init, mutant);
        JudgeOptions options{.seed = 77, .family_oracle_seconds = 0.002, .full_oracle_seconds = 0.002};
        Judgement j = judge(info, c.init, c.workload, wrong, baseline, options);
        EXPECT_FALSE(j.passed() && wrong.differs()) << info.name << ", " << c.label << ": " << mutant.name;
      } catch (const std::exception&) {  // no kernel takes the changed arguments
      }
    }
  }
}

std::vector<const OperatorInfo*> single_kernels() {
  std::vector<const OperatorInfo*> all;
  for (const OperatorInfo* info : Registry::instance().operators())
    if (info->level == 1) all.push_back(info);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Registry, Mutants, testing::ValuesIn(single_kernels()),
                         [](const auto& p) { return std::string(p.param->name); });

}  // namespace
}  // namespace fk::validate
