// GGUFEmbedding: one row of a table in a block format of GGUF files per token, dequantised and optionally scaled.
#pragma once

#include "ops/contract.h"
#include "ops/formats/weight_format.h"
#include "ops/l1/embedding.h"

namespace fk {

class GGUFEmbedding : public Operator {
 public:
  static constexpr std::string_view kName = "gguf_embedding";
  static constexpr std::string_view kClass = "GGUFEmbedding";
  static constexpr int kLevel = 1;

  struct Init {
    int64_t num_embeddings = 0;
    int64_t embedding_dim = 0;  // whole blocks of the format
    double scale = 1;           // rows are multiplied by it
    std::string weight_format = "q8_0";
    DType dtype = DType::kBF16;  // of out

    template <class Visitor>
    void visit(Visitor&& v) {
      v("num_embeddings", num_embeddings);
      v("embedding_dim", embedding_dim);
      v("scale", scale);
      v("weight_format", weight_format);
      v("dtype", dtype);
    }
  };

  // The same table as of `embedding`, in this format.
  static Init of(const Embedding::Init& embedding, const std::string& weight_format);

  // input_ids i64 [T] -> out [T, D]. An id outside the table gives a row of zeros, never a read out of bounds.
  static constexpr std::array kArgs{in("input_ids"), out("out")};

  explicit GGUFEmbedding(const Init& init) : init_(init), format_(weight_format(init.weight_format)) {}
  virtual void forward(Context& ctx, View input_ids, View out) = 0;

  static std::vector<ParamSpec> params(const Init& init);
  static OutputSpecs outputs(const Init& init, Args given);
  static Inputs inputs(const Init& init, const Workload& workload);
  static Cost cost(const Init& init, const Workload& workload);
  static Tolerance tolerance(const Init& init, DType dtype);
  static std::vector<Case<GGUFEmbedding>> cases();

 protected:
  // The row's bytes; null for an id outside the table.
  const std::byte* row_of(int64_t id) const;

  const Init init_;
  const WeightFormat& format_;
};

}  // namespace fk
