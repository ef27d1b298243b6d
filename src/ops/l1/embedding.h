// Embedding: one row of a table per token, optionally scaled.
#pragma once

#include "ops/contract.h"

namespace fk {

class Embedding : public Operator {
 public:
  static constexpr std::string_view kName = "embedding";
  static constexpr std::string_view kClass = "Embedding";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_embeddings = 0;
    int64_t embedding_dim = 0;
    double scale = 1;  // rows are multiplied by it
    DType dtype = DType::kBF16;

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_embeddings", num_embeddings);
      v("embedding_dim", embedding_dim);
      v("scale", scale);
      v("dtype", dtype);
    }
  };

  // input_ids i64 [T] -> out [T, D]. An id outside the table gives a row of zeros, never a read out of bounds.
  static constexpr std::array kArgs{in("input_ids"), out("out")};

  explicit Embedding(const Init& init) : init_(init) {}
  virtual void forward(Context& ctx, View input_ids, View out) = 0;

  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<Embedding>> cases();

 protected:
  // Why no implementation on any device supports such a call; empty if one may.
  std::string_view refuse_call(Args args) const;

  const View& weight() const { return param(0); }
  const Init init_;
};

}  // namespace fk
