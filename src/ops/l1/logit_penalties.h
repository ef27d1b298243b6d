// LogitPenalties: changes the logits of a few tokens per row: a bias, and penalties for tokens that occurred already.
#pragma once

#include "ops/contract.h"

namespace fk {

class LogitPenalties : public Operator {
 public:
  static constexpr std::string_view kName = "logit_penalties";
  static constexpr std::string_view kClass = "LogitPenalties";
  static constexpr int kLevel = 1;

  struct Init {
    template <class Visitor>
    void visit(Visitor&&) {}
  };

  // Row s of logits [S, V] has the entries starts[s] .. starts[s+1]-1 of the four lists, whose tokens are all
  // different: tokens i64 [N]; counts i32 [N], how often the token was drawn; in_prompt i32 [N], not 0 where the prompt
  // has it; bias f32 [N]. repetition, presence, frequency f32 [S]. For every entry, as vLLM computes it:
  //   x = logit + bias
  //   x = x > 0 ? x / repetition : x * repetition   where it was drawn or is in the prompt
  //   x = x - frequency * count - presence          where it was drawn
  static constexpr std::array kArgs{state("logits"), in("starts"),     in("tokens"),   in("counts"),   in("in_prompt"),
                                    in("bias"),      in("repetition"), in("presence"), in("frequency")};

  explicit LogitPenalties(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View logits, View starts, View tokens, View counts, View in_prompt, View bias,
                       View repetition, View presence, View frequency) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<LogitPenalties>> cases();

 protected:
  // Why no implementation on any device supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

}  // namespace fk
