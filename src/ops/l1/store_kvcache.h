// StoreKVCache: writes the keys and values of new tokens into their slots of the paged cache.
#pragma once

#include "ops/contract.h"

namespace fk {

class StoreKVCache : public Operator {
 public:
  static constexpr std::string_view kName = "store_kvcache";
  static constexpr std::string_view kClass = "StoreKVCache";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_kv_heads = 0;
    int64_t head_size = 0;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_kv_heads", num_kv_heads);
      v("head_size", head_size);
    }
  };

  // key, value [T, K, Dh]; caches [blocks, page size, K, Dh]; slot_mapping i64 [T], negative: do not store.
  static constexpr std::array kArgs{in("key"), in("value"), state("key_cache"), state("value_cache"),
                                    in("slot_mapping")};

  explicit StoreKVCache(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View key, View value, View key_cache, View value_cache, View slot_mapping) = 0;

  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<StoreKVCache>> cases();

 protected:
  // Why no implementation on any device supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

}  // namespace fk
