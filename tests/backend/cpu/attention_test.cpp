// Properties of the attention implementations beyond being near the oracle on the contract's small cases: sizes that
// cross every boundary inside them, independence of threads and neighbours, NaN, queries without keys.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "ops/materialize.h"
#include "ops/registry.h"

namespace fk {
namespace {

struct Call {
  std::string_view op;
  Fields init;
  Workload workload;
};

Call make_call(std::string_view op, std::map<std::string, double> init, std::vector<Sequence> sequences, DType dtype) {
  Call call{op, Registry::instance().at(op).default_init(), Workload::batch(std::move(sequences), true)};
  call.workload.dtype = dtype;
  for (Field& f : call.init) {
    auto at = init.find(std::string(f.name));
    if (at == init.end()) continue;
    if (std::holds_alternative<int64_t>(f.value))
      f.value = static_cast<int64_t>(at->second);
    else if (std::holds_alternative<bool>(f.value))
      f.value = at->second != 0;
    else
      f.value = at->second;
  }
  return call;
}

using Change = std::function<void(std::vector<Tensor>&)>;

std::vector<Tensor> make_given(const Call& call, const Change& change) {
  BatchMetadata batch(call.workload, 1);
  std::vector<Tensor> given;
  for (const auto& input : Registry::instance().at(call.op).inputs(call.init, call.workload)) {
    given.emplace_back(input->spec);
    fill(given.back(), input->generator, 1, std::to_string(given.size()), batch);
  }
  if (change) change(given);
  return given;
}

// The output of one implementation, or of the oracle in f64, for each of `calls`; nothing if it refuses the call.
std::vector<Tensor> run_often(const Call& call, std::string_view implementation, int threads, int calls,
                              const Change& change = {}) {
  const OperatorInfo& info = Registry::instance().at(call.op);
  BuildOptions options;
  if (implementation == "oracle") {
    options.oracle = true;
  } else {
    options.only_operator = call.op;
    options.only_implementation = implementation;
  }
  std::unique_ptr<Node> node = info.build(call.init, options);
  std::vector<Tensor> given = make_given(call, change);
  std::vector<OptView> args(given.begin(), given.end());
  TensorSpec spec = *node->outputs(args).specs[0];
  if (implementation == "oracle") spec.dtype = DType::kF64;
  args.emplace_back();

  ThreadPool pool(threads);
  Arena arena;
  Context ctx{.pool = pool, .arena = arena, .attention = nullptr, .states = {}};
  std::vector<Tensor> outputs;
  size_t capacity = 0;
  for (int i = 0; i < calls; ++i) {
    const View& out = outputs.emplace_back(spec).view();
    std::memset(out.data(), 0xff, out.size_bytes());
    args.back() = out;
    arena.reset();
    try {
      node->call(ctx, args);
    } catch (const std::exception&) {
      return {};
    }
    if (i == 0) capacity = arena.capacity_bytes();
    EXPECT_EQ(arena.capacity_bytes(), capacity) << "a later call took more memory";
  }
  return outputs;
}

std::optional<Tensor> run(const Call& call, std::string_view implementation, int threads, const Change& change = {}) {
  std::vector<Tensor> outputs = run_often(call, implementation, threads, 2, change);
  if (outputs.empty()) return std::nullopt;
  return std::move(outputs.back());
}

std::vector<std::string_view> implementations(std::string_view op) {
  std::vector<std::string_view> names;
  for (const ImplementationInfo& i : Registry::instance().at(op).implementations)
    if (!i.is_oracle && i.device == DeviceKind::kCpu && (i.unavailable == nullptr || i.unavailable().empty()))
      names.push_back(i.name);
  return names;
}

bool same_bits(const View& a, const View& b) { return std::memcmp(a.data(), b.data(), a.size_bytes()) == 0; }

void expect_near_oracle(const Call& call, const Change& change = {}) {
  Tensor expected = *run(call, "oracle", 1, change);
  std::vector<Tensor> given = make_given(call, change);
  std::vector<OptView> args(given.begin(), given.end());
  Tolerance t = Registry::instance().at(call.op).tolerance_on(call.init, call.workload.dtype, args);
  double scale = 0;
  for (int64_t i = 0; i < expected.view().numel(); ++i) scale = std::max(scale, std::abs(expected.ptr<double>()[i]));
  for (std::string_view name : implementations(call.op)) {
    std::optional<Tensor> out = run(call, name, 2, change);
    if (!out) continue;
    const View& v = out->view();
    for (int64_t i = 0; i < v.numel(); ++i) {
      double x =
          load_element(static_cast<std::byte*>(v.data()) + static_cast<size_t>(i) * dtype_size(v.dtype()), v.dtype());
      double ref = expected.ptr<double>()[i], bound = t.relative * std::abs(ref) + t.of_scale * scale;
      ASSERT_TRUE(std::abs(x - ref) <= bound) << name << ", element " << i << ": " << x << " instead of " << ref;
    }
  }
}

constexpr DType kDTypes[] = {DType::kBF16, DType::kF32};

TEST(PrefillAttention, CrossesEveryBoundary) {
  for (DType dtype : kDTypes) {
    // More keys than are weighed at a time; rows of a tile from several queries, with and without a rest.
    expect_near_oracle(make_call("flash_attn_prefill",
                                 {{"num_heads", 6}, {"num_kv_heads", 2}, {"head_size", 64}, {"softmax_scale", 0.125}},
                                 {{13, 600}, {40, 0}}, dtype));
    // Head sizes between whole tiles, groups larger than one.
    expect_near_oracle(make_call("flash_attn_prefill",
                                 {{"num_heads", 40}, {"num_kv_heads", 1}, {"head_size", 80}, {"softmax_scale", 0.1}},
                                 {{3, 70}}, dtype));
    expect_near_oracle(
        make_call("flash_attn_prefill", {{"num_heads", 1}, {"num_kv_heads", 1}, {"head_size", 1}}, {{70, 0}}, dtype));
    expect_near_oracle(make_call("flash_attn_prefill",
                                 {{"num_heads", 2}, {"num_kv_heads", 2}, {"head_size", 512}, {"softmax_scale", 0.05}},
                                 {{34, 31}}, dtype));
    // A window that starts inside a block, far from the first one.
    expect_near_oracle(make_call(
        "flash_attn_prefill",
        {{"num_heads", 2}, {"num_kv_heads", 1}, {"head_size", 32}, {"softmax_scale", 0.2}, {"sliding_window", 100}},
        {{70, 500}}, dtype));
    expect_near_oracle(make_call("flash_attn_prefill",
                                 {{"num_heads", 2},
                                  {"num_kv_heads", 1},
                                  {"head_size", 32},
                                  {"softmax_scale", 0.2},
                                  {"sliding_window", 30},
                                  {"causal", 0}},
                                 {{70, 80}}, dtype));
    // Scales that turn the order of scores around, or make them all one.
    expect_near_oracle(make_call("flash_attn_prefill",
                                 {{"num_heads", 2}, {"num_kv_heads", 1}, {"head_size", 32}, {"softmax_scale", -0.2}},
                                 {{20, 50}}, dtype));
    expect_near_oracle(make_call("flash_attn_prefill",
                                 {{"num_heads", 2}, {"num_kv_heads", 1}, {"head_size", 32}, {"softmax_scale", 0}},
                                 {{20, 50}}, dtype));
    // Scores so far apart that almost every weight vanishes.
    expect_near_oracle(make_call("flash_attn_prefill",
                                 {{"num_heads", 2}, {"num_kv_heads", 1}, {"head_size", 64}, {"softmax_scale", 20}},
                                 {{20, 300}}, dtype));
  }
}

TEST(PrefillAttention, SlowTreatsMoreSequencesThanArePackedAtOnce) {
  expect_near_oracle(make_call("flash_attn_prefill",
                               {{"num_heads", 8}, {"num_kv_heads", 8}, {"head_size", 64}, {"softmax_scale", 0.125}},
                               {{2, 2046}, {1, 2047}, {5, 0}, {1, 2047}}, DType::kBF16));
}

TEST(DecodeAttention, CrossesEveryBoundary) {
  for (DType dtype : kDTypes) {
    expect_near_oracle(make_call("flash_attn_decode",
                                 {{"num_heads", 20}, {"num_kv_heads", 1}, {"head_size", 64}, {"softmax_scale", 0.125}},
                                 {{1, 255}, {1, 256}, {1, 900}}, dtype));
    expect_near_oracle(make_call("flash_attn_decode",
                                 {{"num_heads", 5}, {"num_kv_heads", 5}, {"head_size", 96}, {"softmax_scale", 0.1}},
                                 {{1, 63}, {1, 64}, {1, 65}}, dtype));
    expect_near_oracle(make_call("flash_attn_decode",
                                 {{"num_heads", 3}, {"num_kv_heads", 1}, {"head_size", 512}, {"softmax_scale", 0.05}},
                                 {{1, 130}}, dtype));
    expect_near_oracle(make_call(
        "flash_attn_decode",
        {{"num_heads", 4}, {"num_kv_heads", 2}, {"head_size", 32}, {"softmax_scale", 0.2}, {"sliding_window", 300}},
        {{1, 1000}, {1, 20}}, dtype));
    expect_near_oracle(make_call("flash_attn_decode",
                                 {{"num_heads", 4}, {"num_kv_heads", 2}, {"head_size", 32}, {"softmax_scale", -20}},
                                 {{1, 400}}, dtype));
  }
}

// Windows that start inside a block make every thread write to the very end of its scratch memory; one write beyond it
// changes memory that the other thread reads.
TEST(DecodeAttention, ThreadsKeepToTheirOwnScratchMemory) {
  Call call = make_call(
      "flash_attn_decode",
      {{"num_heads", 4}, {"num_kv_heads", 1}, {"head_size", 16}, {"softmax_scale", 0.2}, {"sliding_window", 62}},
      std::vector<Sequence>(64, {1, 100}), DType::kF32);
  for (std::string_view name : implementations(call.op))
    if (std::optional<Tensor> alone = run(call, name, 1)) {
      for (const Tensor& together : run_often(call, name, 2, 300)) EXPECT_TRUE(same_bits(together, *alone)) << name;
    }
}

TEST(DecodeAttention, OfASequenceWithoutKeysIsZero) {
  for (DType dtype : kDTypes)
    expect_near_oracle(make_call("flash_attn_decode", {{"num_heads", 4}, {"num_kv_heads", 2}, {"head_size", 32}},
                                 {{1, 20}, {1, 3}}, dtype),
                       [](std::vector<Tensor>& given) { given[3].ptr<int32_t>()[0] = 0; });
}

// More queries than keys: the first ones come before the first key.
TEST(PrefillAttention, OfAQueryWithoutKeysIsZero) {
  for (DType dtype : kDTypes)
    expect_near_oracle(
        make_call("flash_attn_prefill", {{"num_heads", 2}, {"num_kv_heads", 1}, {"head_size", 32}}, {{45, 0}}, dtype),
        [](std::vector<Tensor>& given) { given[4].ptr<int32_t>()[1] = 7; });
}

TEST(Attention, HasTheSameBitsWithAnyNumberOfThreads) {
  for (DType dtype : kDTypes)
    for (const Call& call :
         {make_call("flash_attn_prefill",
                    {{"num_heads", 4}, {"num_kv_heads", 2}, {"head_size", 64}, {"softmax_scale", 0.1}},
                    {{100, 20}, {3, 300}}, dtype),
          make_call("flash_attn_decode",
                    {{"num_heads", 4}, {"num_kv_heads", 2}, {"head_size", 64}, {"softmax_scale", 0.1}},
                    {{1, 700}, {1, 3}}, dtype)})
      for (std::string_view name : implementations(call.op)) {
        std::optional<Tensor> one = run(call, name, 1);
        if (!one) continue;
        for (int threads : {2, 5})
          EXPECT_TRUE(same_bits(*one, *run(call, name, threads)))
              << call.op << " by " << name << ", " << threads << " threads";
      }
}

// A NaN in the input must appear in the outputs that depend on it, and nowhere else: element (token 5 of the query, or
// key 40) of head 0.
class NaNs : public testing::TestWithParam<int> {};

TEST_P(NaNs, ReachEveryQueryThatSeesThem) {
  int argument = GetParam();
  constexpr int64_t kTokens = 130, kKey = 40, kDh = 32;
  for (DType dtype : kDTypes) {
    Call call = make_call("flash_attn_prefill",
                          {{"num_heads", 4}, {"num_kv_heads", 2}, {"head_size", kDh}, {"softmax_scale", 0.1}},
                          {{kTokens, 0}}, dtype);
    auto poison = [&](std::vector<Tensor>& given) {
      if (argument == 0) return set(given[0].view(), NAN, kKey, 0, 3);
      const View& cache = given[static_cast<size_t>(argument)];
      int64_t block = given[5].ptr<int32_t>()[kKey / cache.size(1)];
      set(cache, NAN, block, kKey % cache.size(1), 0, 3);
    };
    for (std::string_view name : implementations(call.op)) {
      std::optional<Tensor> out = run(call, name, 2, poison);
      if (!out) continue;
      for (int64_t t = 0; t < kTokens; ++t)
        for (int64_t h = 0; h < 4; ++h)
          for (int64_t d = 0; d < kDh; ++d) {
            bool reached = argument == 0 ? t == kKey && h == 0 : t >= kKey && h < 2 && (argument == 1 || d == 3);
            // A tile multiplies the values of keys its queries do not see with zero, which leaves a NaN a NaN: earlier
            // queries may have it too.
            if (argument == 2 && t < kKey && h < 2 && d == 3) continue;
            ASSERT_EQ(std::isnan(get(out->view(), t, h, d)), reached)
                << name << ' ' << dtype_name(dtype) << ", token " << t << ", head " << h << ", " << d;
          }
    }
  }
}

TEST_P(NaNs, ReachTheirSequenceInDecoding) {
  int argument = GetParam();
  constexpr int64_t kDh = 32;
  for (DType dtype : kDTypes) {
    Call call = make_call("flash_attn_decode",
                          {{"num_heads", 4}, {"num_kv_heads", 2}, {"head_size", kDh}, {"softmax_scale", 0.1}},
                          {{1, 300}, {1, 300}}, dtype);
    auto poison = [&](std::vector<Tensor>& given) {
      if (argument == 0) return set(given[0].view(), NAN, 1, 0, 3);
      int64_t block = given[4].ptr<int32_t>()[given[4].view().stride(0) + 2];
      set(given[static_cast<size_t>(argument)].view(), NAN, block, 7, 0, 3);
    };
    for (std::string_view name : implementations(call.op)) {
      std::optional<Tensor> out = run(call, name, 2, poison);
      if (!out) continue;
      for (int64_t s = 0; s < 2; ++s)
        for (int64_t h = 0; h < 4; ++h)
          for (int64_t d = 0; d < kDh; ++d) {
            bool reached = s == 1 && (argument == 0 ? h == 0 : h < 2 && (argument == 1 || d == 3));
            ASSERT_EQ(std::isnan(get(out->view(), s, h, d)), reached)
                << name << ' ' << dtype_name(dtype) << ", sequence " << s << ", head " << h << ", " << d;
          }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InEachOf, NaNs, testing::Values(0, 1, 2),
                         [](const auto& p) { return std::string(1, "qkv"[p.param]); });

// The content of a cache beyond the last key of a sequence must have no effect.
TEST(Attention, DoesNotLookAtUnusedSlots) {
  for (DType dtype : kDTypes)
    for (auto [op, table, sequences] : {std::tuple("flash_attn_prefill", size_t{5}, std::vector<Sequence>{{21, 0}}),
                                        std::tuple("flash_attn_decode", size_t{4}, std::vector<Sequence>{{1, 20}})})
      expect_near_oracle(make_call(op, {{"num_heads", 2}, {"num_kv_heads", 1}, {"head_size", 32}}, sequences, dtype),
                         [&](std::vector<Tensor>& given) {
                           int64_t last = given[table].ptr<int32_t>()[1];
                           for (size_t cache : {1, 2})
                             for (int64_t page = given[cache].view().size(1), slot = 21 - page; slot < page; ++slot)
                               for (int64_t d = 0; d < 32; ++d) set(given[cache].view(), NAN, last, slot, 0, d);
                         });
}

}  // namespace
}  // namespace fk
