// GGUFEmbedding on CPU: each token's row, dequantised block by block.
#include "ops/l1/gguf_embedding.h"

#include "backend/cpu/row_kernel.h"
#include "ops/register.h"

namespace fk {
namespace {

class GGUFEmbeddingRows final : public GGUFEmbedding {
 public:
  using GGUFEmbedding::GGUFEmbedding;

  std::string_view refuse(Args args) const override {
    if (args[0]->dtype() != DType::kI64) return "input_ids must be i64";
    return refuse_floats({&args[1]});
  }

  void forward(Context& ctx, View input_ids, View out) override {
    const auto* ids = input_ids.ptr<int64_t>();
    auto scale = static_cast<float>(init_.scale);
    for_rows(ctx.pool, input_ids.size(0), init_.embedding_dim, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const std::byte* row = row_of(ids[t * input_ids.stride(0)]);
        with_float(out.dtype(), [&]<class T>(T) {
          T* y = fk::row_of<T>(out, t);
          float values[kMaxBlockElements] = {};
          for (int64_t at = 0; at < init_.embedding_dim; at += format_.block_elements) {
            if (row != nullptr) dequantise(format_, row + format_.row_bytes(at), format_.block_elements, values);
            for (int64_t i = 0; i < format_.block_elements; ++i) y[at + i] = static_cast<T>(values[i] * scale);
          }
        });
      }
    });
  }
};

FK_IMPLEMENTATION(GGUFEmbedding, GGUFEmbeddingRows, "cpu.row_dequantise", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
