#include "ops/l1/draft_to_target.h"

#include <limits>

#include "core/device_runtime.h"
#include "core/memory.h"
#include "ops/algebra/pieces.h"
#include "ops/refusals.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> DraftToTarget::params(const Init& init) {
  const auto room = static_cast<double>(init.vocab_size - init.draft_vocab_size);
  return {{.name = "d2t", .spec = {{init.draft_vocab_size}, DType::kI64}, .fill = Generator::uniform(0, room)}};
}

OutputSpecs DraftToTarget::outputs(const Init& init, Args given) {
  return {TensorSpec{{given[0]->size(0), init.vocab_size}, given[0]->dtype()}};
}

Inputs DraftToTarget::inputs(const Init& init, const Workload& w) {
  // Logits are f32; f64 in the reference.
  const DType dtype = w.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return {InputSpec{{{w.num_tokens(), init.draft_vocab_size}, dtype}, Generator::normal()}};
}

Cost DraftToTarget::cost(const Init& init, const Workload& w) {
  const auto rows = static_cast<double>(w.num_tokens());
  const auto draft = static_cast<double>(init.draft_vocab_size), all = static_cast<double>(init.vocab_size);
  // An implementation may keep the list as short as it likes, so a byte of every entry is all that must be read.
  return {.read_bytes = 4 * rows * draft + draft, .written_bytes = 4 * rows * all};
}

std::vector<Case<DraftToTarget>> DraftToTarget::cases() {
  return {{"one token of seven", {.draft_vocab_size = 1, .vocab_size = 7}, Workload::tokens(1)},
          {"odd", {.draft_vocab_size = 37, .vocab_size = 101}, Workload::tokens(3)},
          {"wide", {.draft_vocab_size = 700, .vocab_size = 2048}, Workload::tokens(9)},
          {"nearly all tokens", {.draft_vocab_size = 300, .vocab_size = 320}, Workload::tokens(4)},
          {"no rows", {.draft_vocab_size = 8, .vocab_size = 16}, Workload::tokens(0)}};
}

std::vector<int32_t> DraftToTarget::draft_tokens() const {
  std::vector<int64_t> offsets(static_cast<size_t>(init_.draft_vocab_size));
  copy_between(param(0), View(offsets.data(), {init_.draft_vocab_size}, DType::kI64));
  std::vector<int32_t> tokens(static_cast<size_t>(init_.vocab_size), -1);
  for (int64_t i = 0; i < init_.draft_vocab_size; ++i) {
    const int64_t offset = offsets[static_cast<size_t>(i)];
    if (offset >= -i && offset < init_.vocab_size - i)
      tokens[static_cast<size_t>(i + offset)] = static_cast<int32_t>(i);
  }
  return tokens;
}

std::string_view DraftToTarget::refuse_call(Args args) const {
  if (args[0]->dtype() != DType::kF32 || args[1]->dtype() != DType::kF32) return "logits must be f32";
  if (args[0]->stride(1) != 1 || args[1]->stride(1) != 1) return "rows must be contiguous";
  return {};
}

namespace {

class DraftToTargetOracle final : public DraftToTarget {
 public:
  using DraftToTarget::DraftToTarget;

  void forward(Context&, View draft_logits, View logits) override {
    const std::vector<int32_t> tokens = draft_tokens();
    for (int64_t row = 0; row < logits.size(0); ++row)
      for (int64_t i = 0; i < init_.vocab_size; ++i) {
        const int32_t token = tokens[static_cast<size_t>(i)];
        set(logits, token < 0 ? -std::numeric_limits<double>::infinity() : get(draft_logits, row, token), row, i);
      }
  }
};

FK_OPERATOR(DraftToTarget, DraftToTargetOracle);

void define_draft_to_target(const DraftToTarget::Init& init, Definition& d) {
  Expr draft = d.arg("draft_logits"), offsets = d.arg("d2t");
  Expr nothing = cast(
      algebra::broadcast(algebra::constant(-std::numeric_limits<double>::infinity()), {init.vocab_size, draft.size(0)}),
      draft.dtype());
  Expr known = scatter(nothing, offsets + algebra::iota(offsets.shape(), 0), transpose(draft, 0, 1));
  d.result("logits", transpose(known, 0, 1));
}
FK_DEFINITION(DraftToTarget, define_draft_to_target);

}  // namespace
}  // namespace fk
