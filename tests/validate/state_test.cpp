// States of operators: collected from the tree, kept from call to call, compared by the judge, and passed to candidates
// by name.
#include "ops/state.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/error.h"
#include "ops/materialize.h"
#include "sandbox/local_subject.h"
#include "tests/candidate/work_folder.h"
#include "tests/validate/fake_subject.h"
#include "tests/validate/toy_memory.h"
#include "validate/judge.h"

namespace fk::validate {
namespace {

JudgeOptions quick_states() {
  return {.seed = 5,
          .family_oracle_seconds = 0.001,
          .full_oracle_seconds = 0.001,
          .calibration_calls = 2,
          .random_shapes = 1,
          .repeats = 1,
          .draws = 4};
}

struct PairTask {
  const OperatorInfo& info;
  Fields init;
  Workload workload;
};

PairTask pair_task() {
  const OperatorInfo& info = Registry::instance().at("toy_pair");
  OperatorInfo::ErasedCase first = info.cases()[0];
  first.workload.dtype = DType::kF32;
  return {info, first.init, first.workload};
}

Judgement judge_pair(Subject& candidate) {
  PairTask t = pair_task();
  FakeSubject baseline(t.info, t.init);
  return judge(t.info, t.init, t.workload, candidate, baseline, quick_states());
}

Judgement judge_pair_fault(const FakeSubject::Fault& fault) {
  PairTask t = pair_task();
  FakeSubject candidate(t.info, t.init);
  candidate.after = fault;
  return judge_pair(candidate);
}

TEST(States, AreListedDepthFirstWithFullNames) {
  PairTask t = pair_task();
  std::unique_ptr<Node> root = t.info.build(t.init, {});
  std::vector<std::string> names;
  for (const StateSpec& s : collect_states(*root)) names.push_back(s.name);
  EXPECT_EQ(names, (std::vector<std::string>{"left.history", "left.sum", "right.history", "right.sum"}));
  EXPECT_TRUE(root->own_states().empty());
  EXPECT_EQ(root->num_states(), 4u);
  EXPECT_EQ(root->children()[1]->first_state(), 2u);
  EXPECT_EQ(root->children()[1]->num_states(), 2u);
}

TEST(States, HaveTheShapeOfTheirKind) {
  PairTask t = pair_task();
  t.workload.dtype = DType::kBF16;
  t.workload.page_size = 8;
  CallData data = make_call_inputs(*t.info.build(t.init, {}), t.workload, 1);
  ASSERT_EQ(data.states.size(), 4u);
  EXPECT_EQ(data.states[0].view().spec(), (TensorSpec{{cache_blocks(t.workload), 8, 24}, DType::kBF16}));
  EXPECT_EQ(data.states[1].view().spec(), (TensorSpec{{state_slots(t.workload), 24}, DType::kF32}));
}

TEST(States, SlotsAreScatteredAndNobodySharesOne) {
  Workload w = Workload::batch(std::vector<Sequence>(12, {1, 3}));
  BatchMetadata batch(w, 1), other(w, 2);
  const View& slots = batch.all().state_slots;
  std::vector<bool> taken(static_cast<size_t>(state_slots(w)));
  bool in_order = true;
  for (int64_t s = 0; s < 12; ++s) {
    auto slot = static_cast<size_t>(slots.ptr<int32_t>()[s]);
    ASSERT_LT(slot, taken.size());
    EXPECT_FALSE(taken[slot]);
    taken[slot] = true;
    in_order = in_order && slot == static_cast<size_t>(s);
    EXPECT_EQ(batch.attention().decode.state_slots.ptr<int32_t>()[s], slots.ptr<int32_t>()[s]);
  }
  EXPECT_FALSE(in_order);
  EXPECT_NE(std::memcmp(slots.data(), other.all().state_slots.data(), slots.size_bytes()), 0);
}

// Six tokens in one call give the same as four and then two with the states of the first call.
TEST(States, CrossCalls) {
  PairTask t = pair_task();
  std::unique_ptr<Node> root = t.info.build(t.init, {});
  ThreadPool pool(1);
  const std::vector<std::vector<int32_t>> tables = {{1}};
  auto run = [&](const Workload& w, std::vector<Tensor>& states, const View& x) {
    BatchMetadata batch(w, tables, 3);
    Tensor out(x.spec());
    Arena arena;
    std::vector<View> views = state_views(states);
    Context ctx{.pool = pool, .arena = arena, .attention = &batch.attention(), .states = views};
    const std::array<OptView, 2> args{x, out.view()};
    root->call(ctx, args);
    return out;
  };
  Workload whole = t.workload, first = t.workload, second = t.workload;
  whole.sequences = {{6, 0}}, first.sequences = {{4, 0}}, second.sequences = {{2, 4}};
  CallData data = make_call_inputs(*root, whole, 3);
  std::vector<Tensor> at_once, in_two;
  for (const Tensor& s : data.states) at_once.push_back(clone(s)), in_two.push_back(clone(s));
  const View x = *data.given[0];
  Tensor expected = run(whole, at_once, x);
  run(first, in_two, x.narrow(0, 0, 4));
  Tensor last = run(second, in_two, x.narrow(0, 4, 2));
  View wanted = expected.view().narrow(0, 4, 2);
  for (int64_t r = 0; r < 2; ++r)
    for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(get(last.view(), r, i), get(wanted, r, i));
  for (size_t i = 0; i < at_once.size(); ++i)
    EXPECT_EQ(std::memcmp(at_once[i].view().data(), in_two[i].view().data(), at_once[i].view().size_bytes()), 0) << i;
}

TEST(States, AnHonestOperatorPassesFromStatesThatAreNotZero) {
  bool nonzero = false, changed = false;
  Judgement j = judge_pair_fault([&](const FakeCall& c) {
    const View &before = c.data.states[1], &after = c.outcome.states[1];
    auto slot = static_cast<int64_t>(get(c.data.batch->all().state_slots, 0));
    nonzero = nonzero || get(before, slot, 0) != 0;
    changed = changed || get(before, slot, 0) != get(after, slot, 0);
  });
  EXPECT_TRUE(j.passed()) << j.sentence;
  EXPECT_TRUE(nonzero && changed);
}

TEST(States, PlantedErrorsAreRefusedByName) {
  auto refused = [](const FakeSubject::Fault& fault, Verdict verdict, std::string_view says) {
    Judgement j = judge_pair_fault(fault);
    EXPECT_EQ(verdict_name(j.verdict), verdict_name(verdict)) << j.sentence;
    EXPECT_NE(j.sentence.find(says), std::string::npos) << j.sentence;
  };
  refused([](const FakeCall& c) { c.outcome.states[3] = clone(c.data.states[3]); }, Verdict::kIncorrectState,
          "the state 'right.sum'");
  refused([](const FakeCall& c) { c.outcome.states[0] = clone(c.data.states[0]); }, Verdict::kIncorrectState,
          "the state 'left.history'");
  // In a slot that belongs to no sequence of this call.
  refused(
      [](const FakeCall& c) {
        std::vector<bool> used(static_cast<size_t>(c.outcome.states[1].view().size(0)));
        const View& slots = c.data.batch->all().state_slots;
        for (int64_t s = 0; s < slots.numel(); ++s) used[static_cast<size_t>(get(slots, s))] = true;
        for (size_t slot = 0; slot < used.size(); ++slot)
          if (!used[slot]) return set(c.outcome.states[1].view(), 0, static_cast<int64_t>(slot), 0);
      },
      Verdict::kIncorrectState, "the state 'left.sum'");
}

// A candidate of the pair, which replaces both parts: %s is the initial value of a sequence.
std::string candidate_text(const std::string& start) {
  return R"(
#include <fastkernels/candidate.h>

#include <initializer_list>

class ToyPair : public fk::ToyPair {
 public:
  using fk::ToyPair::ToyPair;

  void forward(fk::Context& ctx, fk::View x, fk::View out) override {
    if (ctx.num_states() != 4 || ctx.state_name(0)[0] != 'l') throw fk::Error("these are not its states");
    float* between = ctx.scratch<float>(x.numel());
    memory(ctx, ctx.state("left.history"), ctx.state("left.sum"), x.ptr<float>(), between);
    memory(ctx, ctx.state(2), ctx.state(3), between, out.ptr<float>());
  }

 private:
  void memory(fk::Context& ctx, fk::View history, fk::View sum, const float* x, float* out) const {
    int64_t first = 0, D = init_.width, page = history.size(1);
    for (const fk::SequenceGroup& group : {ctx.decode(), ctx.prefill()}) {
      for (int64_t s = 0; s < group.num_sequences; ++s) {
        const int32_t* cu = group.cu_seqlens_q.row<int32_t>(s);
        float* running = sum.row<float>(*group.state_slots.row<int32_t>(s));
        const float* start = history.row<float>(*group.block_table.row<int32_t>(s));
        for (int64_t i = 0; i < D; ++i) {
          double total = )" +
         start + R"(;
          for (int64_t t = first + cu[0]; t < first + cu[1]; ++t) {
            int64_t at = *ctx.slot_mapping().row<int64_t>(t);
            history.row<float>(at / page)[at % page * D + i] = x[t * D + i];
            total = total / 2 + x[t * D + i];
            out[t * D + i] = float(total + start[i]);
          }
          running[i] = float(total);
        }
      }
      first += group.num_tokens;
    }
  }
};

FK_CANDIDATE(ToyPair)
)";
}

class StatesOfCandidates : public testing::Test {
 protected:
  CompileResult compile(const std::string& text) {
    return compile_candidate(folder_.candidate("toy_pair", text), folder_.options());
  }

  WorkFolder folder_;
};

TEST_F(StatesOfCandidates, SlowAreThoseOfTheWholeSubtree) {
  PairTask t = pair_task();
  CompileResult right = compile(candidate_text("running[i]"));
  ASSERT_FALSE(right.failure) << right.log;
  LocalSubject honest(t.info, t.init, right.so_path, 1);
  Judgement j = judge_pair(honest);
  EXPECT_TRUE(j.passed()) << j.sentence;

  CompileResult forgetful = compile(candidate_text("0"));
  ASSERT_FALSE(forgetful.failure) << forgetful.log;
  LocalSubject from_zero(t.info, t.init, forgetful.so_path, 1);
  EXPECT_FALSE(judge_pair(from_zero).passed()) << "it forgets what earlier calls left";
}

TEST_F(StatesOfCandidates, OlderNamesOfCachesAreRefusedWithASentence) {
  CompileResult old = compile(R"(
#include <fastkernels/candidate.h>
class ToyPair : public fk::ToyPair {
 public:
  using fk::ToyPair::ToyPair;
  void forward(fk::Context& ctx, fk::View, fk::View) override { ctx.key_cache(0); }
};
FK_CANDIDATE(ToyPair)
)");
  ASSERT_TRUE(old.failure);
  EXPECT_NE((old.failure->sentence + old.log).find("write ctx.state(\"key_cache\")"), std::string::npos)
      << old.failure->sentence << old.log;
}

}  // namespace
}  // namespace fk::validate
