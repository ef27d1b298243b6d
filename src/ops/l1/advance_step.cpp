#include "ops/l1/advance_step.h"

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

OutputSpecs AdvanceStep::outputs(const Init&, Args given) {
  int64_t S = given[0]->size(0);
  return {TensorSpec{{S}, DType::kI64}, TensorSpec{{S}, DType::kI64}, TensorSpec{{S + 1}, DType::kI32}};
}

Inputs AdvanceStep::inputs(const Init&, const Workload& w) {
  using Kind = Generator::Kind;
  int64_t S = w.num_sequences();
  return {InputSpec{{{S}, DType::kI64}, Generator::integers(0, 1 << 17)},
          InputSpec{{{S, blocks_per_sequence(w)}, DType::kI32}, Generator::metadata(Kind::kBlockTable)},
          InputSpec{{{S}, DType::kI64}, Generator::metadata(Kind::kPositions)},
          InputSpec{{{S}, DType::kI32}, Generator::metadata(Kind::kSeqLens)},
          InputSpec{{{S}, DType::kI64}, Generator::integers(0, 1000)}};
}

Cost AdvanceStep::cost(const Init&, const Workload& w) {
  constexpr double kRead = 8 + 4 + 8 + 4 + 8;         // token, block, position, length, step
  constexpr double kWritten = 8 + 4 + 8 + 8 + 8 + 4;  // position, length, step, token, slot, running sum
  auto S = static_cast<double>(w.num_sequences());
  return {.read_bytes = kRead * S, .written_bytes = kWritten * S};
}

Tolerance AdvanceStep::tolerance(const Init&, DType) { return {}; }  // integers are exact

std::vector<Case<AdvanceStep>> AdvanceStep::cases() {
  return {
      {"one sequence", {}, Workload::batch({{1, 7}})},
      {"the table ends", {}, Workload::batch({{1, 15}})},
      {"ragged", {}, Workload::batch({{1, 3}, {1, 15}, {1, 16}, {1, 100}, {1, 47}})},
      {"blocks of 64", {.block_size = 64}, Workload::batch({{1, 63}, {1, 64}, {1, 5}}).with_pages_of(64)},
      {"many", {}, Workload::batch(std::vector<Sequence>(300, {1, 20}))},
  };
}

std::string_view AdvanceStep::refuse_call(Args args) const {
  for (const OptView& arg : args)
    if (!arg->contiguous()) return "all arguments must be contiguous";
  return {};
}

namespace {

class AdvanceStepOracle final : public AdvanceStep {
 public:
  using AdvanceStep::AdvanceStep;

  void forward(Context&, View sampled, View block_table, View positions, View seq_lens, View steps, View input_ids,
               View slot_mapping, View cu_seqlens_k) override {
    double keys = 0;
    set(cu_seqlens_k, 0, 0);
    for (int64_t s = 0; s < sampled.size(0); ++s) {
      bool is_sequence = get(seq_lens, s) > 0;
      if (is_sequence) {
        set(positions, get(positions, s) + 1, s);
        set(seq_lens, get(seq_lens, s) + 1, s);
        set(steps, get(steps, s) + 1, s);
      }
      auto position = static_cast<int64_t>(get(positions, s)), block = position / init_.block_size;
      bool has_slot = is_sequence && block < block_table.size(1);
      set(input_ids, is_sequence ? get(sampled, s) : 0, s);
      set(slot_mapping,
          has_slot ? get(block_table, s, block) * static_cast<double>(init_.block_size) +
                         static_cast<double>(position % init_.block_size)
                   : -1,
          s);
      set(cu_seqlens_k, keys += get(seq_lens, s), s + 1);
    }
  }
};

FK_OPERATOR(AdvanceStep, AdvanceStepOracle);

void define_advance_step(const AdvanceStep::Init& init, Definition& d) {
  Expr sampled = d.arg("sampled_token_ids"), table = d.arg("block_table"), before = d.arg("seq_lens");
  const int64_t S = table.size(0), n = table.size(1);
  auto page = static_cast<double>(init.block_size);
  Expr is_sequence = algebra::constant(0) < before, one = select(is_sequence, 1, algebra::constant(0));
  Expr lengths = before + one, position = d.arg("positions") + one, block = floor_divide(position, page);
  d.result("positions", position);
  d.result("seq_lens", lengths);
  d.result("steps", d.arg("steps") + one);
  d.result("input_ids", select(is_sequence, sampled, 0));
  Expr in_table = is_sequence & (block < static_cast<double>(n));
  Expr entry = algebra::iota({S}, 0) * static_cast<double>(n) + block;
  Expr slot = gather(reshape(table, {S * n}), entry) * page + modulo(position, page);
  d.result("slot_mapping", select(in_table, slot, -1));
  // The index -1 gives the 0 that the running sum begins with.
  d.result("cu_seqlens_k", gather(scan(lengths, 0), algebra::iota({S + 1}, 0) - 1));
}
FK_DEFINITION(AdvanceStep, define_advance_step);

}  // namespace
}  // namespace fk
