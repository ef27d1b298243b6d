// PagedMQALogits: how much each query wants each key, by the indexer of sparse attention: a weighted sum over its heads
// of products with one key for all of them, of which only positive ones count.
#pragma once

#include "ops/contract.h"

namespace fk {

class PagedMQALogits : public Operator {
 public:
  static constexpr std::string_view kName = "paged_mqa_logits";
  static constexpr std::string_view kClass = "PagedMQALogits";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_heads = 0;
    int64_t head_dim = 0;
    double scale = 1;  // of the sum, positive

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_heads", num_heads);
      v("head_dim", head_dim);
      v("scale", scale);
    }
  };

  // q [T, H, D]; k_cache [blocks, page size, D]; weights f32 [T, H]; seq_lens i32 [S] counts the new tokens; block_table
  // i32 [S, n]; cu_seqlens_q i32 [S + 1], without it every sequence has one query -> logits f32 [T, n, page size]: of
  // key j of the query's sequence at [j / page size, j % page size], -infinity where it does not see the key.
  static constexpr std::array kArgs{in("q"),           in("k_cache"),           in("weights"), in("seq_lens"),
                                    in("block_table"), opt_in("cu_seqlens_q"), out("logits")};

  explicit PagedMQALogits(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View q, View k_cache, View weights, View seq_lens, View block_table,
                       OptView cu_seqlens_q, View logits) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static Tolerance tolerance_on(const Init& init, DType dtype, Args given);
  static std::vector<Case<PagedMQALogits>> cases();

 protected:
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

}  // namespace fk
