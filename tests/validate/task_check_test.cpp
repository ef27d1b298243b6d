// The task linter over every case of every operator: the cases it refuses are degenerate, and listed here with the
// reason.
#include "validate/task_check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "tests/validate/fake_subject.h"
#include "validate/reference.h"

namespace fk::validate {
namespace {

// Cases of the contracts that test an edge and cannot tell a right kernel from a wrong one.
const std::map<std::string, std::string> kDegenerate = {
    {"advance_step: blocks of 64", "the tokens fed are a copy of those drawn"},
    {"advance_step: many", "the tokens fed are a copy of those drawn"},
    {"advance_step: one sequence", "the tokens fed are a copy of those drawn"},
    {"advance_step: ragged", "the tokens fed are a copy of those drawn"},
    {"advance_step: the table ends", "the tokens fed are a copy of those drawn"},
    {"all_gather: alone, odd", "one rank gathers a copy"},
    {"all_gather: alone, one element", "one rank gathers a copy"},
    {"all_gather: alone, rows", "one rank gathers a copy"},
    {"all_to_all: alone, odd", "one rank sends itself a copy"},
    {"all_to_all: alone, one element", "one rank sends itself a copy"},
    {"allreduce: alone, odd", "the sum over one rank is a copy"},
    {"allreduce: alone, one element", "the sum over one rank is a copy"},
    {"act_quant_int8: one element", "the largest element of a row is always rounded to itself"},
    {"argmax: one element", "the index can only be 0"},
    {"attention_pool: one token", "one key has all the weight, whatever the query"},
    {"bitnet_attention: ternary", "a step of 8-bit activations is allowed, which is near to zeros"},
    {"bitnet_attention: ternary, odd, scales that divide", "a step of 8-bit activations is allowed, near to zeros"},
    {"bitnet_mlp: ternary", "a step of 8-bit activations is allowed, which is near to zeros"},
    {"bitnet_mlp: ternary, odd, scales that divide", "a step of 8-bit activations is allowed, which is near to zeros"},
    {"encoder_only_attention: one token", "one key has all the weight, whatever the query"},
    {"flash_attn_decode: first key", "one key has all the weight, whatever the query"},
    {"flash_attn_prefill: one token", "one key has all the weight, whatever the query"},
    {"flash_attn_prefill: window of one", "one key has all the weight, whatever the query"},
    {"flash_mla_sparse_fwd: one key", "one key has all the weight, or the list has none (-1)"},
    {"grouped_topk: one expert", "always expert 0"},
    {"index_select: one element", "a copy"},
    {"indexer: mixed", "as many keys are wanted as there are: the indices can only be those of all keys"},
    {"indexer: odd", "as many keys are wanted as there are: the indices can only be those of all keys"},
    {"l2_norm: hardly any eps", "without an eps the norm divides by the scale of its input"},
    {"l2_norm: one head", "in bf16 the eps is less than a rounding, and the norm divides by the scale of its input"},
    {"mla_sparse_attention: prefill", "lists can only have key 0, which has all the weight, whatever the query"},
    {"moe_align: one pair", "the pair can only be the first"},
    {"reduce_scatter: alone, odd", "the sum over one rank is a copy"},
    {"reduce_scatter: alone, one element", "the sum over one rank is a copy"},
    {"reduce_scatter: alone, rows", "the sum over one rank is a copy"},
    {"rotary_emb: smallest", "position 0 turns nothing"},
    {"rwkv7_gates: large eps", "v is not read without v_gate and v_first"},
    {"rwkv7_gates: odd", "v is not read without v_gate and v_first"},
    {"rwkv7_gates: one element", "v is not read without v_gate and v_first"},
    {"sample: large vocabulary", "no row of three draws a number that a filter decides about"},
    {"sample: one token", "the token can only be 0"},
    {"sequence_pool: one element", "a copy"},
    {"shift_ids: from zero", "a copy"},
    {"softmax: one element", "always 1"},
    {"top_k_per_row: fewer keys than wanted", "the indices can only be those of all keys"},
    {"top_k_per_row: one key", "the index can only be 0"},
    {"topk_softmax: one expert", "always expert 0 with weight 1"},
    {"ttt_linear: one element", "one element less the mean is 0, and so is the gradient"},
};

class Tasks : public testing::TestWithParam<const OperatorInfo*> {
 protected:
  void expect_valid_unless_listed(size_t first, size_t count) {
    const OperatorInfo& info = *GetParam();
    std::vector<OperatorInfo::ErasedCase> cases = info.cases();
    for (size_t i = first; i < std::min(cases.size(), first + count); ++i) {
      // In a bf16 model of six layers single weights have less effect than the rounding; in f32 they have a visible
      // effect.
      DType dtype = info.level == 4 || i % 2 == 0 ? DType::kF32 : DType::kBF16;
      Fields init = with_dtype(cases[i].init, dtype);
      Workload workload = cases[i].workload;
      workload.dtype = dtype;
      FakeSubject baseline(info, init);
      TaskReport report = check_task(info, init, workload, baseline, {.seed = 5, .oracle_seconds = 0.005});
      std::string name = fmt::format("{}: {}", info.name, cases[i].label), found;
      for (const TaskFinding& f : report.findings) found += f.sentence + " ";
      bool degenerate = kDegenerate.contains(name) || workload.num_tokens() == 0;
      EXPECT_EQ(report.valid(), !degenerate) << name << ", " << dtype_name(dtype) << ": " << found;
      EXPECT_EQ(report.failure().has_value(), !report.valid());
      if (!report.valid()) continue;
      ++valid_;
      for (const std::string& weight : report.unused_weights) ++unused_[weight];
    }
  }

  size_t valid_ = 0;
  std::map<std::string, size_t> unused_;  // weight -> in how many valid cases
};

// One case in f32 and one in bf16. Of layers and models only one is tried: all of them would take minutes.
TEST_P(Tasks, AreValidUnlessListed) { expect_valid_unless_listed(0, GetParam()->level >= 3 ? 1 : 2); }

class AllTasks : public Tasks {};

TEST_P(AllTasks, SlowAreValidUnlessListed) {
  expect_valid_unless_listed(0, std::numeric_limits<int32_t>::max());
  // A batch need not use every weight, but some batch of the operator must.
  for (const auto& [weight, times] : unused_)
    EXPECT_LT(times, valid_) << GetParam()->name << ": no case uses the weight " << weight;
}

std::vector<const OperatorInfo*> kernels_and_blocks() {
  std::vector<const OperatorInfo*> list;
  for (const OperatorInfo* info : Registry::instance().operators())
    if (info->level < 3) list.push_back(info);
  return list;
}

std::string name_of(const testing::TestParamInfo<const OperatorInfo*>& test) { return std::string(test.param->name); }
INSTANTIATE_TEST_SUITE_P(Registry, Tasks, testing::ValuesIn(Registry::instance().operators()), name_of);
INSTANTIATE_TEST_SUITE_P(SlowRegistry, AllTasks, testing::ValuesIn(kernels_and_blocks()), name_of);

}  // namespace
}  // namespace fk::validate
