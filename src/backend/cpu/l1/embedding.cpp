// Embedding on CPU: a copy of each token's row, scaled if the model has a scale.
#include "ops/l1/embedding.h"

#include "backend/cpu/l1/copy_rows.h"
#include "backend/cpu/simd.h"
#include "ops/register.h"

namespace fk {
namespace {

template <class T>
FK_INLINE void scale_body(const T* row, float scale, T* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) store(out[i], load(row[i]) * scale);
}

FK_SIMD_CLONES void scale_row(const bf16* row, float scale, bf16* out, int64_t n) { scale_body(row, scale, out, n); }
FK_SIMD_CLONES void scale_row(const f16* row, float scale, f16* out, int64_t n) { scale_body(row, scale, out, n); }
FK_SIMD_CLONES void scale_row(const float* row, float scale, float* out, int64_t n) { scale_body(row, scale, out, n); }

class EmbeddingRowCopy final : public Embedding {
 public:
  using Embedding::Embedding;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() && init_.scale != 1 ? refuse_floats({&args[1]}) : why;
  }

  void forward(Context& ctx, View input_ids, View out) override {
    const auto* ids = input_ids.ptr<int64_t>();
    int64_t stride = input_ids.stride(0), D = init_.embedding_dim;
    size_t bytes = static_cast<size_t>(D) * dtype_size(init_.dtype);
    for_rows(ctx.pool, input_ids.size(0), D, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        int64_t id = ids[t * stride];
        if (id < 0 || id >= init_.num_embeddings)
          std::memset(row_bytes(out, t), 0, bytes);
        else if (init_.scale == 1)
          std::memcpy(row_bytes(out, t), row_bytes(weight(), id), bytes);
        else
          with_float(init_.dtype, [&]<class T>(T) {
            scale_row(row_of<T>(weight(), id), static_cast<float>(init_.scale), row_of<T>(out, t), D);
          });
      }
    });
  }
};

FK_IMPLEMENTATION(Embedding, EmbeddingRowCopy, "cpu.row_copy", DeviceKind::kCpu, 0, nullptr);

}  // namespace
}  // namespace fk
