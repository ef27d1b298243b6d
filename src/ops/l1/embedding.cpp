#include "ops/l1/embedding.h"

#include "ops/algebra/definition.h"
#include "ops/register.h"

namespace fk {

std::vector<ParamSpec> Embedding::params(const Init& init) {
  return {{"weight", {{init.num_embeddings, init.embedding_dim}, init.dtype}}};
}

OutputSpecs Embedding::outputs(const Init& init, Args given) {
  return {TensorSpec{{given[0]->size(0), init.embedding_dim}, init.dtype}};
}

Inputs Embedding::inputs(const Init& init, const Workload& w) {
  return {InputSpec{{{w.num_tokens()}, DType::kI64}, Generator::integers(0, init.num_embeddings).or_special()}};
}

Cost Embedding::cost(const Init& init, const Workload& w) {
  auto n = static_cast<double>(w.num_tokens());
  double row = static_cast<double>(init.embedding_dim) * static_cast<double>(dtype_size(init.dtype));
  return {.read_bytes = 8 * n + distinct_rows(static_cast<double>(init.num_embeddings), n) * row,
          .written_bytes = n * row};
}

Tolerance Embedding::tolerance(const Init& init, DType dtype) {
  return init.scale == 1 ? Tolerance{} : rounding_tolerance(dtype);  // a copy is exact
}

std::vector<Case<Embedding>> Embedding::cases() {
  return {
      {"one by one", {.num_embeddings = 1, .embedding_dim = 1}, Workload::tokens(1)},
      {"odd", {.num_embeddings = 33, .embedding_dim = 19}, Workload::tokens(7)},
      {"wide", {.num_embeddings = 300, .embedding_dim = 512}, Workload::tokens(65)},
      {"scaled", {.num_embeddings = 40, .embedding_dim = 48, .scale = 6.9375}, Workload::tokens(9)},
      {"no tokens", {.num_embeddings = 3, .embedding_dim = 8}, Workload::tokens(0)},
  };
}

std::string_view Embedding::refuse_call(Args args) const {
  if (args[0]->dtype() != DType::kI64) return "input_ids must be i64";
  if (args[1]->dtype() != init_.dtype) return "out must have the dtype of the table";
  return args[1]->rows_contiguous() ? "" : "the last dimension of out must be contiguous";
}

namespace {

class EmbeddingOracle final : public Embedding {
 public:
  using Embedding::Embedding;

  void forward(Context&, View input_ids, View out) override {
    for (int64_t t = 0; t < input_ids.size(0); ++t) {
      auto id = static_cast<int64_t>(get(input_ids, t));
      bool known = id >= 0 && id < init_.num_embeddings;
      for (int64_t i = 0; i < init_.embedding_dim; ++i) set(out, known ? get(weight(), id, i) * init_.scale : 0, t, i);
    }
  }
};

FK_OPERATOR(Embedding, EmbeddingOracle);

void define_embedding(const Embedding::Init& init, Definition& d) {
  Expr rows = gather(d.arg("weight"), d.arg("input_ids"));
  d.result("out", init.scale == 1 ? rows : rows * init.scale);
}
FK_DEFINITION(Embedding, define_embedding);

}  // namespace
}  // namespace fk
