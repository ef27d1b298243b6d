// IndexerKCache: writes the indexer's keys of new tokens into their slots of the paged cache.
#pragma once

#include "ops/contract.h"

namespace fk {

class IndexerKCache : public Operator {
 public:
  static constexpr std::string_view kName = "indexer_k_cache";
  static constexpr std::string_view kClass = "IndexerKCache";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t head_dim = 0;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("head_dim", head_dim);
    }
  };

  // k [T, D]; k_cache [blocks, page size, D]; slot_mapping i64 [T], negative: do not store.
  static constexpr std::array kArgs{in("k"), state("k_cache"), in("slot_mapping")};

  explicit IndexerKCache(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View k, View k_cache, View slot_mapping) = 0;

  static OutputSpecs outputs(const Init&, Args) { return {}; }
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init&, DType) { return {}; }  // a copy is exact
  static std::vector<Case<IndexerKCache>> cases();

 protected:
  std::string_view refuse_call(Args args) const;

  const Init init_;
};

}  // namespace fk
