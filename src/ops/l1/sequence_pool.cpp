#include "ops/l1/sequence_pool.h"

#include <algorithm>

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

OutputSpecs SequencePool::outputs(const Init& init, Args given) {
  DType narrow = given[0]->dtype();
  DType dtype = init.float_output && dtype_size(narrow) < 4 ? DType::kF32 : narrow;
  return {TensorSpec{{given[1]->size(0) - 1, given[0]->size(1)}, dtype}};
}

Inputs SequencePool::inputs(const Init&, const Workload& w) {
  return {InputSpec{{{w.num_tokens(), w.width}, w.dtype}, Generator::normal(0.25, 1)},
          InputSpec{{{w.num_sequences() + 1}, DType::kI32}, Generator::metadata(Generator::Kind::kCuSeqlensQ)}};
}

Cost SequencePool::cost(const Init& init, const Workload& w) {
  auto S = static_cast<double>(w.num_sequences()), D = static_cast<double>(w.width);
  double rows = 0;
  for (const Sequence& s : w.sequences)
    rows += static_cast<double>(init.pooling == "mean" ? s.query_len : std::min<int64_t>(s.query_len, 1));
  auto size = static_cast<double>(dtype_size(w.dtype));
  return {.read_bytes = rows * D * size + 4 * (S + 1),
          .written_bytes = S * D * (init.float_output ? std::max(size, 4.0) : size),
          .vector_flops = init.pooling == "mean" ? rows * D : 0};
}

Tolerance SequencePool::tolerance(const Init& init, DType dtype) {
  if (init.pooling != "mean") return {};   // a copy is exact
  return rounding_tolerance(dtype, 1024);  // tokens of a sum
}

std::vector<Case<SequencePool>> SequencePool::cases() {
  auto of = [](std::vector<Sequence> sequences, int64_t width) {
    Workload w = Workload::batch(std::move(sequences));
    w.width = width;
    return w;
  };
  std::vector<Case<SequencePool>> cases;
  for (const char* pooling : {"cls", "mean", "last"}) {
    std::string name(pooling);
    cases.push_back({name + ", ragged", {name}, of({{1, 0}, {7, 0}, {19, 0}, {2, 0}}, 77)});
    cases.push_back({name + ", embeddings", {name, true}, of({{5, 0}, {1, 0}, {33, 0}}, 131)});
  }
  cases.push_back({"one element", {"mean"}, of({{1, 0}}, 1)});
  cases.push_back({"wide", {"mean"}, of({{12, 0}, {3, 0}}, 1024)});
  cases.push_back({"no tokens", {"mean"}, of({{0, 0}}, 8)});
  return cases;
}

std::string_view SequencePool::refuse_call(Args args) const {
  if (init_.pooling != "cls" && init_.pooling != "mean" && init_.pooling != "last")
    return "it pools by cls, mean and last only";
  if (args[1]->dtype() != DType::kI32 || !args[1]->rows_contiguous()) return "cu_seqlens must be i32 without gaps";
  return {};
}

namespace {

class SequencePoolOracle final : public SequencePool {
 public:
  using SequencePool::SequencePool;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context&, View x, View cu_seqlens, View out) override {
    for (int64_t s = 0; s + 1 < cu_seqlens.size(0); ++s) {
      auto begin = static_cast<int64_t>(get(cu_seqlens, s)), end = static_cast<int64_t>(get(cu_seqlens, s + 1));
      if (init_.pooling == "cls") end = std::min(end, begin + 1);
      if (init_.pooling == "last") begin = std::max(begin, end - 1);
      for (int64_t i = 0; i < x.size(1); ++i) {
        double mean = 0;
        for (int64_t t = begin; t < end; ++t) mean += get(x, t, i) / static_cast<double>(end - begin);
        set(out, mean, s, i);
      }
    }
  }
};

FK_OPERATOR(SequencePool, SequencePoolOracle);

void define_sequence_pool(const SequencePool::Init& init, Definition& d) {
  Expr x = d.arg("x"), bounds = d.arg("cu_seqlens");
  const int64_t S = bounds.size(0) - 1, T = x.size(0);
  Expr begin = slice(bounds, 0, 0, S), end = slice(bounds, 0, 1, S);
  if (init.pooling != "mean") {  // an index of -1 gives zeros
    Expr token = init.pooling == "cls" ? begin : end - 1;
    return d.result("out", gather(x, select(begin < end, token, -1)));
  }
  begin = reshape(begin, {S, 1, 1});
  end = reshape(end, {S, 1, 1});
  Expr token = algebra::iota({1, T, 1}, 1);
  Expr inside = (token < end) & !(token < begin);
  Expr total = sum(select(inside, insert_axis(x, 0), 0), 1);
  d.result("out", drop_axis(total / max(end - begin, 1), 1));
}
FK_DEFINITION(SequencePool, define_sequence_pool);

}  // namespace
}  // namespace fk
