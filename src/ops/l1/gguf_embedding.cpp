#include "ops/l1/gguf_embedding.h"

#include "core/error.h"
#include "ops/register.h"

namespace fk {

GGUFEmbedding::Init GGUFEmbedding::of(const Embedding::Init& embedding, const std::string& weight_format) {
  return {.num_embeddings = embedding.num_embeddings,
          .embedding_dim = embedding.embedding_dim,
          .scale = embedding.scale,
          .weight_format = weight_format,
          .dtype = embedding.dtype};
}

std::vector<ParamSpec> GGUFEmbedding::params(const Init& init) {
  const WeightFormat& format = weight_format(init.weight_format);
  if (init.embedding_dim % format.block_elements != 0)
    throw Error("A table in {} has blocks of {} elements, and rows of {} do not divide into them.", format.name,
                format.block_elements, init.embedding_dim);
  ParamSpec table{"weight", {{init.num_embeddings, format.row_bytes(init.embedding_dim)}, DType::kU8}};
  table.format = init.weight_format;
  return {table};
}

OutputSpecs GGUFEmbedding::outputs(const Init& init, Args given) {
  return {TensorSpec{{given[0]->size(0), init.embedding_dim}, init.dtype}};
}

Inputs GGUFEmbedding::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens()}, DType::kI64}, Generator::integers(0, init.num_embeddings)}};
}

Cost GGUFEmbedding::cost(const Init& init, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens());
  double row = matrix_bytes(init.weight_format, 1, init.embedding_dim, init.dtype);
  return {.read_bytes = 8 * n + distinct_rows(static_cast<double>(init.num_embeddings), n) * row,
          .written_bytes = n * static_cast<double>(init.embedding_dim) * static_cast<double>(dtype_size(init.dtype))};
}

Tolerance GGUFEmbedding::tolerance(const Init&, DType dtype) { return rounding_tolerance(dtype); }

std::vector<Case<GGUFEmbedding>> GGUFEmbedding::cases() {
  return {
      {"one row", {.num_embeddings = 1, .embedding_dim = 32, .weight_format = "q8_0"}, Workload::tokens(1)},
      {"odd", {.num_embeddings = 33, .embedding_dim = 96, .weight_format = "q4_0"}, Workload::tokens(7)},
      {"blocks of 256", {.num_embeddings = 40, .embedding_dim = 512, .weight_format = "q4_k"}, Workload::tokens(9)},
      {"groups of 16", {.num_embeddings = 40, .embedding_dim = 256, .weight_format = "q6_k"}, Workload::tokens(9)},
      {"scaled",
       {.num_embeddings = 40, .embedding_dim = 64, .scale = 6.9375, .weight_format = "q8_0"},
       Workload::tokens(9)},
      {"no tokens", {.num_embeddings = 3, .embedding_dim = 32, .weight_format = "q8_0"}, Workload::tokens(0)},
  };
}

const std::byte* GGUFEmbedding::row_of(int64_t id) const {
  if (id < 0 || id >= init_.num_embeddings) return nullptr;
  return static_cast<const std::byte*>(param(0).data()) + id * param(0).stride(0);
}

namespace {

class GGUFEmbeddingOracle final : public GGUFEmbedding {
 public:
  using GGUFEmbedding::GGUFEmbedding;

  void forward(Context&, View input_ids, View out) override {
    std::vector<float> row(static_cast<size_t>(init_.embedding_dim));
    for (int64_t t = 0; t < input_ids.size(0); ++t) {
      const std::byte* bytes = row_of(static_cast<int64_t>(get(input_ids, t)));
      std::fill(row.begin(), row.end(), 0.0f);
      if (bytes != nullptr) dequantise(format_, bytes, init_.embedding_dim, row.data());
      for (int64_t i = 0; i < init_.embedding_dim; ++i)
        set(out, static_cast<double>(row[static_cast<size_t>(i)]) * init_.scale, t, i);
    }
  }
};

FK_OPERATOR(GGUFEmbedding, GGUFEmbeddingOracle);

}  // namespace
}  // namespace fk
