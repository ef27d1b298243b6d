// Definitions against oracles on inputs that generated cases do not have: padding rows, empty sequences, queries
// without keys, and memory that is no number where nothing may read it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "core/element_rows.h"
#include "ops/algebra/definition.h"
#include "ops/algebra/evaluate.h"
#include "sandbox/call_memory.h"
#include "tests/conformance/trial.h"

namespace fk::conformance {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinite = std::numeric_limits<double>::infinity();

// The inputs of one case, which a test changes, and what oracle and definition make of them.
class OddCall {
 public:
  OddCall(const char* op, const OperatorInfo::ErasedCase& which)
      : info_(Registry::instance().at(op)), problem_(make_problem(info_, which, DType::kF64)) {
    for (auto& t : problem_.data.given) args_.push_back(t ? OptView(t->view()) : std::nullopt);
  }

  View operator[](std::string_view name) const {
    for (size_t i = 0; i < args_.size(); ++i)
      if (info_.args[i].name == name && args_[i]) return *args_[i];
    throw std::runtime_error("no argument " + std::string(name));
  }
  bool has(std::string_view name) const {
    for (size_t i = 0; i < args_.size(); ++i)
      if (info_.args[i].name == name) return args_[i].has_value();
    return false;
  }

  void expect_equal() {
    const std::vector<Tensor> want = run(true), got = run(false);
    ASSERT_EQ(want.size(), got.size());
    for (size_t i = 0; i < want.size(); ++i) {
      const std::vector<double> w = numbers(want[i]), g = numbers(got[i]);
      ASSERT_EQ(w.size(), g.size());
      for (size_t k = 0; k < w.size(); ++k) {
        const bool same = w[k] == g[k] || (std::isnan(w[k]) && std::isnan(g[k])) ||
                          std::abs(w[k] - g[k]) <= 1e-6 * (1 + std::abs(w[k]));
        ASSERT_TRUE(same) << fmt::format("{} '{}', result {}, element {}: {} instead of {}", info_.name, problem_.label,
                                         i, k, g[k], w[k]);
      }
    }
  }

 private:
  static std::vector<double> numbers(const View& v) {
    std::vector<double> all(static_cast<size_t>(v.numel()));
    load_elements(v.data(), v.dtype(), 1, v.numel(), all.data());
    return all;
  }

  // States and outputs after a call.
  std::vector<Tensor> run(bool by_oracle) {
    std::vector<Tensor> memory;
    memory.reserve(info_.args.size());
    std::vector<OptView> args;
    for (const OptView& given : args_) {
      args.emplace_back();
      if (given) args.back() = memory.emplace_back(copy_of(*given)).view();
    }
    OutputSpecs outputs = problem_.oracles->outputs(args);
    for (size_t i = 0; args.size() < info_.args.size(); ++i) {
      args.emplace_back();
      if (outputs.specs[i]) args.back() = memory.emplace_back(*outputs.specs[i]).view();
    }
    std::map<std::string, View> weights;
    std::vector<ParamSpec> specs = collect_params(*problem_.oracles);
    for (size_t i = 0; i < specs.size(); ++i) weights.emplace(specs[i].name, problem_.data.params[i].view());
    auto weight = [&](std::string_view name) { return weights.at(std::string(name)); };
    if (by_oracle) {
      problem_.oracles->bind(weight);
      ThreadPool pool(1);
      Arena arena;
      Context ctx{.pool = pool, .arena = arena, .attention = &problem_.data.batch->attention(), .states = {}};
      problem_.oracles->call(ctx, args);
    } else {
      define_call(args, weight);
    }
    std::vector<Tensor> written;
    for (size_t i = 0; i < args.size(); ++i)
      if (info_.args[i].role != Role::kInput && args[i]) written.push_back(copy_of(*args[i]));
    return written;
  }

  template <class Weight>
  void define_call(const std::vector<OptView>& args, const Weight& weight) const {
    const Definition definition = define(info_.name, problem_.init, args);
    ASSERT_EQ(definition.opaque(), "");
    auto argument = [&](std::string_view name) -> const OptView* {
      for (size_t i = 0; i < args.size(); ++i)
        if (info_.args[i].name == name) return &args[i];
      return nullptr;
    };
    algebra::Environment environment{[&](const algebra::Head& input) {
      const OptView* arg = argument(input.name);
      return algebra::load_values(arg == nullptr ? weight(input.name) : **arg);
    }};
    std::vector<Expr> exprs;
    for (const algebra::NamedExpr& r : definition.results()) exprs.push_back(r.expr);
    std::vector<algebra::Values> values = algebra::evaluate(exprs, environment);
    for (size_t i = 0; i < values.size(); ++i)
      algebra::store_values(*values[i], **argument(definition.results()[i].name));
  }

  const OperatorInfo& info_;
  Problem problem_;
  std::vector<OptView> args_;
};

void fill(const View& v, double x) {
  const View all(v.data(), {{v.numel()}, v.dtype()});
  for (int64_t i = 0; i < v.numel(); ++i) set(all, x, i);
}

// Calls `change` on every case that it is for, and compares.
template <class Change>
void each_case(const char* op, const Change& change) {
  int compared = 0;
  for (const OperatorInfo::ErasedCase& which : Registry::instance().at(op).cases()) {
    OperatorInfo::ErasedCase wide{which.label, with_dtype(which.init, DType::kF64), which.workload};
    wide.workload.dtype = DType::kF64;
    if (wide.workload.num_tokens() > 64) continue;
    OddCall call(op, wide);
    if (!change(call)) continue;
    call.expect_equal();
    if (testing::Test::HasFatalFailure()) return;
    ++compared;
  }
  EXPECT_GT(compared, 0) << op;
}

constexpr const char* kSteps[] = {"causal_conv1d",
                                  "selective_scan",
                                  "ssd_scan",
                                  "fused_recurrent_gated_delta_rule",
                                  "fused_recurrent_gla",
                                  "fused_recurrent_kda",
                                  "fused_recurrent_retention",
                                  "fused_recurrent_rwkv7"};

TEST(OddDefinitions, PaddingRowsOfStepsStartFromZerosAndKeepNothing) {
  for (const char* op : kSteps)
    each_case(op, [](OddCall& call) {
      if (call.has("cu_seqlens")) return false;
      View slots = call["state_slots"];
      for (int64_t s = 0; s < slots.size(0); s += 2) set(slots, s % 4 == 0 ? -1 : -7, s);
      return true;
    });
}

TEST(OddDefinitions, NegativeSlotsAreNotStored) {
  for (const char* op : {"concat_and_cache_mla", "indexer_k_cache", "store_kvcache"})
    each_case(op, [](OddCall& call) {
      View slots = call["slot_mapping"];
      for (int64_t t = 0; t < slots.size(0); t += 2) set(slots, t % 4 == 0 ? -1 : -100, t);
      return true;
    });
}

TEST(OddDefinitions, QueriesWithoutKeysReadNothing) {
  each_case("flash_mla_sparse_fwd", [](OddCall& call) {
    fill(call["kv_c_and_k_pe_cache"], kNan);
    fill(call["indices"], -1);
    return true;
  });
  for (const char* op : {"flash_mla_with_kvcache", "paged_mqa_logits"})
    each_case(op, [&](OddCall& call) {
      if (call.has("cu_seqlens_q")) return false;
      fill(call[op[0] == 'f' ? "kv_c_and_k_pe_cache" : "k_cache"], kNan);
      fill(call["seq_lens"], 0);
      return true;
    });
}

TEST(OddDefinitions, SequencesMayBeEmpty) {
  each_case("mla_prefill", [](OddCall& call) {
    View bounds = call["cu_seqlens"];
    if (bounds.size(0) < 3) return false;
    set(bounds, 0, 1);
    return true;
  });
  for (const char* op : {"flash_mla_with_kvcache", "paged_mqa_logits", "flash_mla_sparse_fwd"})
    each_case(op, [&](OddCall& call) {
      if (!call.has("cu_seqlens_q")) return false;
      View bounds = call["cu_seqlens_q"];
      if (bounds.size(0) < 3) return false;
      const int64_t page = call[op[0] == 'f' ? "kv_c_and_k_pe_cache" : "k_cache"].size(1);
      set(bounds, 0, 1);
      if (call.has("seq_lens")) fill(call["seq_lens"], static_cast<double>(call["block_table"].size(1) * page));
      return true;
    });
}

TEST(OddDefinitions, HeadsOfStepsAreShared) {
  for (const char* op : kSteps) {
    if (std::string_view(op).find("recurrent") == std::string_view::npos) continue;
    for (auto [q, k, v] : {std::array{1, 2, 4}, {4, 2, 1}, {2, 1, 4}, {3, 3, 6}, {5, 1, 0}}) {
      OperatorInfo::ErasedCase which{"heads", Registry::instance().at(op).default_init(),
                                     Workload::batch({{1, 3}, {1, 0}})};
      which.workload.dtype = DType::kF64;
      for (auto& [name, value] : which.init) {
        if (name == "num_heads") value = int64_t{q};
        if (name == "num_k_heads") value = int64_t{k};
        if (name == "num_v_heads") value = int64_t{v};
        if (name == "head_k_dim") value = int64_t{3};
        if (name == "head_v_dim") value = int64_t{5};
        if (name == "first_head") value = int64_t{2};
      }
      OddCall(op, which).expect_equal();
      if (HasFatalFailure()) return;
    }
  }
}

TEST(OddDefinitions, ASideWithoutKeysMayHoldAnything) {
  each_case("merge_attn_states", [](OddCall& call) {
    View a = call["prefix_lse"], b = call["suffix_lse"];
    for (int64_t h = 0; h < a.size(0); ++h)
      for (int64_t t = 0; t < a.size(1); ++t) {
        const int64_t kind = (h + t) % 4;
        if (kind == 0 || kind == 2) set(a, kind == 0 ? -kInfinite : kInfinite, h, t);
        if (kind == 1) set(b, -kInfinite, h, t);
        if (kind == 2) set(b, -kInfinite, h, t);
        for (int64_t i = 0; i < call["prefix_output"].size(2); ++i) {
          if (kind == 0 || kind == 2) set(call["prefix_output"], kNan, t, h, i);
          if (kind == 1 || kind == 2) set(call["suffix_output"], kNan, t, h, i);
        }
      }
    return true;
  });
}

}  // namespace
}  // namespace fk::conformance
