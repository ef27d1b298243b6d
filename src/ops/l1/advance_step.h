// AdvanceStep: prepares the next decode step: the sampled tokens become the inputs, one position further.
#pragma once

#include "ops/contract.h"

namespace fk {

class AdvanceStep : public Operator {
 public:
  static constexpr std::string_view kName = "advance_step";
  static constexpr std::string_view kClass = "AdvanceStep";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t block_size = kDefaultPageSize;  // tokens a block of the cache holds

    template <class Visitor>
    void visit(Visitor&& v) {
      v("block_size", block_size);
    }
  };

  // sampled_token_ids i64 [S]; block_table i32 [S, n]; positions i64 [S], seq_lens i32 [S] and steps i64 [S] grow by
  // one
  // -> input_ids i64 [S], the sampled ones; slot_mapping i64 [S], the cache slot of the new position, -1 if the table
  // ends before it; cu_seqlens_k i32 [S+1], the running sum of seq_lens. A row of length 0 is padding: it stays
  // unchanged, with token 0 and slot -1.
  static constexpr std::array kArgs{in("sampled_token_ids"), in("block_table"),  state("positions"),
                                    state("seq_lens"),       state("steps"),     out("input_ids"),
                                    out("slot_mapping"),     out("cu_seqlens_k")};

  explicit AdvanceStep(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View sampled_token_ids, View block_table, View positions, View seq_lens,
                       View steps, View input_ids, View slot_mapping, View cu_seqlens_k) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<AdvanceStep>> cases();

 protected:
  // Why no implementation on any device supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

}  // namespace fk
