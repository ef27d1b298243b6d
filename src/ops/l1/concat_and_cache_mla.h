// ConcatAndCacheMLA: writes the latent of new tokens and their rotated key, side by side, into the slots of the paged
// cache of latent attention.
#pragma once

#include "ops/contract.h"

namespace fk {

class ConcatAndCacheMLA : public Operator {
 public:
  static constexpr std::string_view kName = "concat_and_cache_mla";
  static constexpr std::string_view kClass = "ConcatAndCacheMLA";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t kv_lora_rank = 0;
    int64_t qk_rope_head_dim = 0;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("kv_lora_rank", kv_lora_rank);
      v("qk_rope_head_dim", qk_rope_head_dim);
    }
  };

  // kv_c [T, L]; k_pe [T, R]; kv_cache [blocks, page size, L + R]; slot_mapping i64 [T], negative: do not store.
  static constexpr std::array kArgs{in("kv_c"), in("k_pe"), state("kv_cache"), in("slot_mapping")};

  explicit ConcatAndCacheMLA(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View kv_c, View k_pe, View kv_cache, View slot_mapping) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<ConcatAndCacheMLA>> cases();

 protected:
  // Why no implementation on any device supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

}  // namespace fk
