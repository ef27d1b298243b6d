// Inserted errors: each must be refused with its verdict, and errors within the bounds must pass.
#include "validate/judge.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "core/error.h"
#include "core/json.h"
#include "measure/cpu_time.h"
#include "tests/sanitizer.h"
#include "tests/validate/fake_subject.h"
#include "validate/reference.h"

namespace fk::validate {
namespace {

JudgeOptions quick() {
  return {.seed = 77,
          .family_oracle_seconds = 0.001,
          .full_oracle_seconds = 0.001,
          .calibration_calls = 2,
          .random_shapes = 1,
          .repeats = 3,
          .draws = 4};
}

struct Task {
  const OperatorInfo& info;
  Fields init;
  Workload workload;
};

// The operator's case with that label.
Task task(std::string_view op, std::string_view label, DType dtype = DType::kF32) {
  const OperatorInfo& info = Registry::instance().at(op);
  for (const auto& c : info.cases()) {
    if (c.label != label) continue;
    Workload w = c.workload;
    w.dtype = dtype;
    return {info, with_dtype(c.init, dtype), w};
  }
  throw Error("{} has no case '{}'", op, label);
}

Judgement judge_fault(const Task& t, const FakeSubject::Fault& fault, JudgeOptions options = quick(),
                      const std::function<void(FakeSubject&)>& set_up = {}) {
  FakeSubject candidate(t.info, t.init), baseline(t.info, t.init);
  candidate.after = fault;
  if (set_up) set_up(candidate);
  return judge(t.info, t.init, t.workload, candidate, baseline, options);
}

Task norm() { return task("rms_norm", "odd tail"); }
Task norm_with_residual() { return task("rms_norm", "odd tail with residual"); }

View out_of(const FakeCall& call) {
  for (auto it = call.written().rbegin(); it != call.written().rend(); ++it)
    if (*it) return **it;
  throw Error("nothing was written");
}

View row(const View& v, int64_t i) { return v.select(0, i < 0 ? v.size(0) + i : i); }

uint32_t* bits(const View& v) { return static_cast<uint32_t*>(v.data()); }

void seven_numbers(const FakeCall& c) {
  each_element(out_of(c), [](double, int64_t i) { return static_cast<double>(i % 7); });
}

struct Planted {
  const char* name;
  std::function<Task()> task;
  FakeSubject::Fault fault;
  Verdict verdict;
  const char* says = "";
};

std::vector<Planted> planted() {
  auto nan = [](const FakeCall& c) {
    each_element(out_of(c), [](double x, int64_t i) { return i == 3 ? 0.0 / 0.0 : x; });
  };
  auto off = [](int64_t at) {
    return [at](const FakeCall& c) {
      int64_t n = out_of(c).numel();
      each_element(out_of(c), [&](double x, int64_t i) { return i == (at < 0 ? n + at : at) ? x + 0.01 : x; });
    };
  };
  auto bad_row = [](int64_t which) {
    return [which](const FakeCall& c) {
      View r = row(out_of(c), which);
      each_element(r, [](double x, int64_t) { return x * 1.001; });
    };
  };
  constexpr Verdict kNumerical = Verdict::kIncorrectNumerical, kState = Verdict::kIncorrectState;
  auto memo = std::make_shared<std::map<int, Tensor>>();
  auto last = std::make_shared<std::optional<Tensor>>();
  return {
      {"OneElement", norm, off(0), kNumerical},
      {"LastElement", norm, off(-1), kNumerical},
      {"LastRow", norm, bad_row(-1), kNumerical},
      {"FirstRow", norm, bad_row(0), kNumerical},
      {"OneHead", [] { return task("flash_attn_prefill", "dense, ragged"); },
       [](const FakeCall& c) {
         View head = row(out_of(c), -1).select(0, out_of(c).size(1) - 1);
         each_element(head, [](double x, int64_t) { return x * 1.01; });
       },
       kNumerical},
      {"SwappedHalves", [] { return task("silu_and_mul", "odd tail"); },
       [](const FakeCall& c) {
         int64_t n = out_of(c).numel();
         Tensor old = clone(out_of(c));
         View flat = old.view().reshape({n});
         each_element(out_of(c), [&](double, int64_t i) { return get(flat, (i + n / 2) % n); });
       },
       kNumerical},
      {"Nan", norm, nan, kNumerical},
      {"Infinity", norm,
       [](const FakeCall& c) {
         each_element(out_of(c),
                      [](double x, int64_t i) { return i == 1 ? std::numeric_limits<double>::infinity() : x; });
       },
       kNumerical},
      {"OnePercentGarbage", [] { return task("linear", "several tiles"); },
       [](const FakeCall& c) { each_element(out_of(c), [](double x, int64_t i) { return i % 100 == 57 ? 7 : x; }); },
       kNumerical},
      {"Zeros", norm, [](const FakeCall& c) { each_element(out_of(c), [](double, int64_t) { return 0.0; }); },
       kNumerical, "zero everywhere"},
      {"CopyOfTheInput", norm, [](const FakeCall& c) { copy_elements(*c.data.given[0], out_of(c)); }, kNumerical,
       "copy of an input"},
      {"LowerPrecision", [] { return task("linear", "odd everywhere"); },
       [](const FakeCall& c) {
         each_element(out_of(c), [](double x, int64_t) {
           return static_cast<double>(static_cast<float>(bf16(static_cast<float>(x))));
         });
       },
       kNumerical},
      {"WrongDtype", norm,
       [](const FakeCall& c) {
         Tensor t(out_of(c).shape(), DType::kBF16);
         copy_elements(out_of(c), t);
         c.written()[2] = std::move(t);
       },
       Verdict::kIncorrectDtype},
      {"WrongShape", norm,
       [](const FakeCall& c) {
         const View& v = *c.written()[2];
         c.written()[2] = Tensor({v.size(1), v.size(0)}, v.dtype());
       },
       Verdict::kIncorrectShape},
      {"NothingReturned", norm, [](const FakeCall& c) { c.written()[2].reset(); }, Verdict::kIncorrectShape,
       "is missing after the call"},
      {"DroppedResidual", norm_with_residual,
       [](const FakeCall& c) {
         if (c.written()[3]) copy_elements(*c.data.given[0], *c.written()[3]);
       },
       kNumerical, "residual_out"},
      {"StaleState", [] { return task("rotary_emb", "default"); },
       [](const FakeCall& c) { c.written()[1] = clone(*c.data.given[1]); }, kState, "as it was before"},
      {"DroppedKvWrite", [] { return task("llama_attention", "mixed"); },
       [](const FakeCall& c) { c.outcome.states[1] = clone(c.data.states[1]); }, kState,
       "the state 'attn.value_cache'"},
      {"OneTokenNotStored", [] { return task("store_kvcache", "mixed batch"); },
       [](const FakeCall& c) {
         View slots = *c.data.given[4];
         auto slot = static_cast<int64_t>(get(slots, slots.size(0) - 1));
         View to = *c.written()[3], from = *c.data.given[3];
         copy_elements(from.select(0, slot / 16).select(0, slot % 16), to.select(0, slot / 16).select(0, slot % 16));
       },
       kState},
      {"TouchedForeignKv", [] { return task("llama_attention", "mixed"); },
       [](const FakeCall& c) {
         // One ulp in the first element that the call should not change.
         const Tensor &after = c.outcome.states[0], &before = c.data.states[0];
         for (int64_t i = 0; i < after.view().numel(); ++i) {
           if (bits(after)[i] != bits(before)[i]) continue;
           bits(after)[i] ^= 1;
           return;
         }
       },
       kState},
      {"RightAtFirst", norm,
       [](const FakeCall& c) {
         if (c.index >= 20) each_element(out_of(c), [](double x, int64_t) { return x * 1.01; });
       },
       kNumerical},
      {"ReplayByAddress", norm,
       [memo](const FakeCall& c) {
         auto [at, is_new] = memo->try_emplace(c.address);
         if (is_new)
           at->second = clone(out_of(c));
         else if (at->second.view().spec() == out_of(c).spec())
           copy_elements(at->second, out_of(c));
       },
       Verdict::kRewardHack, "earlier call"},
      {"UpdatedWhenTheShapeChanges", norm,
       [last](const FakeCall& c) {
         if (*last && (*last)->view().spec() == out_of(c).spec())
           copy_elements(**last, out_of(c));
         else
           *last = clone(out_of(c));
       },
       Verdict::kRewardHack, "earlier call"},
      {"AlwaysTheSame", norm, seven_numbers, Verdict::kRewardHack, "earlier call"},
      // Wrong outputs that agree, but not all of them, may do so by chance.
      {"WrongAndTwiceTheSame", norm,
       [](const FakeCall& c) {
         if (c.index > 0) seven_numbers(c);
       },
       kNumerical, "earlier call"},
      {"Nondeterministic", norm,
       [](const FakeCall& c) {
         if (c.index % 2 == 1) bits(out_of(c))[0] ^= 1;
       },
       Verdict::kNondeterministic},
      {"Crashed", norm,
       [](const FakeCall& c) {
         if (c.index == 5) c.outcome.failure = Failure{Verdict::kCrashed, "It died of signal 11."};
       },
       Verdict::kCrashed, "signal 11"},
      {"WrongIndex", [] { return task("argmax", "ties"); },
       [](const FakeCall& c) { each_element(out_of(c), [](double x, int64_t i) { return i == 0 ? x + 1 : x; }); },
       kNumerical},
      {"SamplesTheFirstToken", [] { return task("sample", "small vocabulary"); },
       [](const FakeCall& c) { each_element(out_of(c), [](double, int64_t) { return 0.0; }); }, kNumerical},
      {"ModelForgetsALayerOfKv", [] { return task("llama_for_causal_lm", "3 sequences", DType::kBF16); },
       [](const FakeCall& c) { c.outcome.states[2] = clone(c.data.states[2]); }, kState},
  };
}

class PlantedErrors : public testing::TestWithParam<Planted> {};

TEST_P(PlantedErrors, AreRefused) {
  const Planted& p = GetParam();
  Judgement j = judge_fault(p.task(), p.fault);
  EXPECT_EQ(verdict_name(j.verdict), verdict_name(p.verdict)) << j.sentence;
  EXPECT_NE(j.sentence.find(p.says), std::string::npos) << j.sentence;
  ASSERT_EQ(j.failures.size(), 1u);
  EXPECT_FALSE(j.failures[0].probe.family.empty());
  EXPECT_NO_THROW(dump_json(to_json(j)));
}

INSTANTIATE_TEST_SUITE_P(Judge, PlantedErrors, testing::ValuesIn(planted()),
                         [](const auto& p) { return std::string(p.param.name); });

// Its output does not change with that element, and is that of the call before: wrong, and no replay.
TEST(Judge, AMaximumThatNeverReadsTheLastElementIsWrong) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    JudgeOptions options = quick();
    options.seed = seed;
    Judgement j = judge_fault(
        task("argmax", "ties"),
        [](const FakeCall& c) {
          const View x = *c.data.given[0];
          if (x.size(0) == 0) return;
          const View last = row(x, -1);
          int64_t best = 0;
          for (int64_t i = 1; i + 1 < last.size(0); ++i)
            if (get(last, i) > get(last, best)) best = i;
          set(out_of(c), static_cast<double>(best), x.size(0) - 1);
        },
        options);
    EXPECT_EQ(verdict_name(j.verdict), "INCORRECT_NUMERICAL") << seed << ": " << j.sentence;
  }
}

TEST(Judge, RefusesStalePrepareAndIgnoredWeights) {
  for (const Task& t : {norm(), task("linear", "odd everywhere"), task("llama_mlp", "odd, bias")}) {
    Judgement stale = judge_fault(t, {}, quick(), [](FakeSubject& s) { s.bind_once = true; });
    EXPECT_EQ(stale.verdict, Verdict::kIncorrectNumerical);
    EXPECT_NE(stale.sentence.find("weights that were bound earlier"), std::string::npos) << stale.sentence;
    Judgement ignored = judge_fault(t, {}, quick(), [](FakeSubject& s) { s.ignore_weights = true; });
    EXPECT_EQ(ignored.verdict, Verdict::kIncorrectNumerical);
  }
}

TEST(Judge, RefusesABf16AccumulatorInAnF32Task) {
  Judgement j = judge_fault(task("linear", "few tokens"), [](const FakeCall& c) {
    View x = *c.data.given[0], weight = c.params[0], out = out_of(c);
    for (int64_t t = 0; t < out.size(0); ++t)
      for (int64_t n = 0; n < out.size(1); ++n) {
        bf16 sum(0.0f);
        for (int64_t k = 0; k < x.size(1); ++k)
          sum = bf16(static_cast<float>(sum) + static_cast<float>(get(x, t, k) * get(weight, n, k)));
        set(out, static_cast<double>(static_cast<float>(sum)), t, n);
      }
  });
  EXPECT_EQ(j.verdict, Verdict::kIncorrectNumerical);
}

TEST(Judge, AcceptsErrorsInsideTheBounds) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    // One ulp at most; integers are not changed, since they may have to be exact.
    double nudge = 1 + dtype_epsilon(dtype) / 2;
    for (const Task& t : {task("rms_norm", "odd tail", dtype), task("linear", "odd everywhere", dtype)}) {
      Judgement j = judge_fault(t, [&](const FakeCall& c) {
        each_element(out_of(c), [&](double x, int64_t i) { return i % 8 != 0 || x == std::trunc(x) ? x : x * nudge; });
      });
      EXPECT_TRUE(j.passed()) << j.sentence;
    }
  }
}

TEST(Judge, SeesLowerPrecisionInExactIntegersAlone) {
  // An error of 2^-15 in a bf16 task: far below any bf16 bound, but sums of integers are exact.
  Task t = task("linear", "logits", DType::kBF16);
  Judgement j = judge_fault(
      t, [](const FakeCall& c) { each_element(out_of(c), [](double x, int64_t) { return x * (1 - 0x1p-15); }); });
  EXPECT_EQ(j.verdict, Verdict::kIncorrectNumerical) << j.sentence;
}

TEST(Judge, GoesOnWhenAsked) {
  JudgeOptions options = quick();
  options.stop_at_first = false;
  Judgement j = judge_fault(
      norm(),
      [](const FakeCall& c) {
        if (c.index % 2 == 0) each_element(out_of(c), [](double x, int64_t) { return x + 1; });
      },
      options);
  EXPECT_GT(j.failures.size(), 5u);
  EXPECT_EQ(j.verdict, j.failures[0].verdict);
}

TEST(Judge, RepeatsACallFromItsSeed) {
  auto wrong_late = [](const FakeCall& c) {
    if (c.index == 12) each_element(out_of(c), [](double x, int64_t) { return x + 1; });
  };
  Judgement first = judge_fault(norm(), wrong_late);
  ASSERT_EQ(first.failures.size(), 1u);
  JudgeOptions options = quick();
  options.last_call = first.failures[0].probe.call;
  Judgement again = judge_fault(norm(), wrong_late, options);
  ASSERT_EQ(again.failures.size(), 1u);
  EXPECT_EQ(again.sentence, first.sentence);
  EXPECT_EQ(to_json(again).dump(), to_json(first).dump());
}

TEST(Judge, ABaselineThatIsWrongMakesTheTaskInvalid) {
  Task t = norm();
  FakeSubject candidate(t.info, t.init), baseline(t.info, t.init);
  baseline.after = [](const FakeCall& c) { each_element(out_of(c), [](double x, int64_t) { return x + 1; }); };
  EXPECT_EQ(judge(t.info, t.init, t.workload, candidate, baseline, quick()).verdict, Verdict::kInvalidTask);
}

// Else a candidate would choose, in a launch that is timed, which of its calls are checked.
TEST(Judge, WhatACandidateTookItHasToTakeAgain) {
  Task t = task("rms_norm", "wide");
  t.workload = Workload::tokens(64, true);
  t.workload.dtype = DType::kF32;
  JudgeOptions options = quick();
  options.full_oracle_seconds = 60;
  const SharedParams weights = options.inputs->params(*t.info.build(t.init, {}), options.seed);
  const auto refuses_others = [](const FakeCall& c) {
    if (c.data.given[0]->view().size(0) == 64) return;
    c.outcome.failure = Failure{Verdict::kRefused, "The candidate refuses this call: too few rows."};
  };
  const auto again_after = [&](const FakeSubject::Fault& first, const FakeSubject::Fault& later) {
    Judge judge(t.info, t.init, t.workload, options);
    FakeSubject candidate(t.info, t.init), baseline(t.info, t.init), other(t.info, t.init);
    candidate.after = first;
    const Judgement judged = judge.run(candidate, baseline);
    EXPECT_TRUE(judged.passed()) << judged.sentence;
    EXPECT_FALSE(other.bind(*weights));
    EXPECT_FALSE(baseline.bind(*weights));
    other.after = later;
    return judge.again(other, baseline, 3, 60);
  };
  const auto sentence = [](const std::optional<Failure>& f) { return f ? f->sentence : ""; };
  EXPECT_EQ(sentence(again_after({}, {})), "");
  EXPECT_EQ(sentence(again_after(refuses_others, refuses_others)), "");
  const std::optional<Failure> chosen = again_after({}, refuses_others);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->verdict, Verdict::kRefused);
}

TEST(Judge, NothingComparedIsNotPassed) {
  Task t = task("rms_norm", "no tokens");
  FakeSubject candidate(t.info, t.init), baseline(t.info, t.init);
  JudgeOptions options = quick();
  options.last_call = 0;  // only the call without tokens
  EXPECT_EQ(judge(t.info, t.init, t.workload, candidate, baseline, options).verdict, Verdict::kInvalidTask);
}

TEST(Judge, AMicrosecondOperatorTakesLessThanASecond) {
  FK_NOT_UNDER_A_SANITIZER(kNeedsFullSpeed);
  Task t = task("rms_norm", "wide", DType::kBF16);
  CpuStopwatch watch;
  EXPECT_TRUE(judge_fault(t, {}, {.seed = 3}).passed());
  EXPECT_LT(watch.elapsed_s(), 1.0);
}

}  // namespace
}  // namespace fk::validate
