// `gguf_embedding` on CUDA: the rows of the tokens, dequantised.
#include "ops/l1/gguf_embedding.h"

#include "backend/cuda/quantised/matrix.h"
#include "core/error.h"
#include "ops/register.h"

namespace fk::cuda {
namespace {

class GGUFEmbeddingLookup final : public GGUFEmbedding {
 public:
  using GGUFEmbedding::GGUFEmbedding;

  std::string_view refuse(Args args) const override {
    const View& out = *args[1];
    if (out.dtype() != DType::kBF16 && out.dtype() != DType::kF16 && out.dtype() != DType::kF32)
      return "it writes bf16, f16 and f32 only";
    return out.rows_contiguous() ? std::string_view() : "the last dimension of its tensors must be contiguous";
  }

  void forward(Context& ctx, View input_ids, View out) override {
    table_->look_up(
        {.ids = input_ids.ptr<int64_t>(), .id_stride = input_ids.stride(0), .scale = static_cast<float>(init_.scale)},
        out, ctx.stream);
  }

 protected:
  void prepare() override {
    MakeMatrix make = find_matrix_format(format_.name);
    if (make == nullptr) throw Error("There is no CUDA kernel for weights in {}; use --device cpu.", format_.name);
    table_ = make({.tensors = {&param(0), 1}, .rows = init_.num_embeddings, .columns = init_.embedding_dim});
  }

 private:
  std::unique_ptr<QuantisedMatrix> table_;
};

FK_IMPLEMENTATION(GGUFEmbedding, GGUFEmbeddingLookup, "cuda.dequantise_rows", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
