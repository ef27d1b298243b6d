// DraftToTarget on CPU: a row of -infinity, into which the known logits are copied.
#include "ops/l1/draft_to_target.h"

#include <algorithm>
#include <limits>

#include "backend/cpu/l1/copy_rows.h"
#include "ops/register.h"

namespace fk {
namespace {

class DraftToTargetRows final : public DraftToTarget {
 public:
  using DraftToTarget::DraftToTarget;

  std::string_view refuse(Args args) const override { return refuse_call(args); }

  void forward(Context& ctx, View draft_logits, View logits) override {
    for_rows(ctx.pool, logits.size(0), init_.vocab_size, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const auto* from = reinterpret_cast<const float*>(row_bytes(draft_logits, row));
        auto* to = reinterpret_cast<float*>(row_bytes(logits, row));
        std::fill_n(to, init_.vocab_size, -std::numeric_limits<float>::infinity());
        for (const auto& [token, draft] : pairs_) to[token] = from[draft];
      }
    });
  }

 private:
  struct Pair {
    int32_t token, draft;
  };

  void prepare() override {
    const std::vector<int32_t> tokens = draft_tokens();
    pairs_.clear();
    for (size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i] >= 0) pairs_.push_back({static_cast<int32_t>(i), tokens[i]});
  }

  std::vector<Pair> pairs_;
};

FK_IMPLEMENTATION(DraftToTarget, DraftToTargetRows, "cpu.rows", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
