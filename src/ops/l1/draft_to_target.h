// DraftToTarget: logits over the smaller vocabulary of a head that guesses, as logits over the vocabulary of the model
// it guesses for. Tokens that the head does not know have the logit -infinity.
#pragma once

#include <vector>

#include "ops/contract.h"

namespace fk {

class DraftToTarget : public Operator {
 public:
  static constexpr std::string_view kName = "draft_to_target";
  static constexpr std::string_view kClass = "DraftToTarget";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t draft_vocab_size = 0;
    int64_t vocab_size = 0;  // of the target; not less

    template <class Visitor>
    void visit(Visitor&& v) {
      v("draft_vocab_size", draft_vocab_size);
      v("vocab_size", vocab_size);
    }
  };

  // draft_logits [L, draft_vocab_size], rows contiguous -> logits [L, vocab_size].
  static constexpr std::array kArgs{in("draft_logits"), out("logits")};

  explicit DraftToTarget(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View draft_logits, View logits) = 0;

  // d2t i64 [draft_vocab_size]: draft token i is token i + d2t[i] of the target. Of several that are one token the last
  // one counts; those outside the vocabulary count nothing.
  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init&, DType) { return {}; }  // a copy is exact
  static std::vector<Case<DraftToTarget>> cases();

 protected:
  // For every token of the target its number in the draft's vocabulary, or -1. On the host.
  std::vector<int32_t> draft_tokens() const;
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

}  // namespace fk
