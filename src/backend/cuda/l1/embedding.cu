// Embedding on CUDA: a copy of each token's row, scaled if the model has a scale.
#include "ops/l1/embedding.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/copy_rows.h"
#include "backend/cuda/l1/packs.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kEmbeddingThreads = 256;

template <class T, int N>
__global__ void __launch_bounds__(kEmbeddingThreads)
    scale_rows(const int64_t* ids, int64_t id_stride, const T* table, int64_t entries, int64_t width, float scale,
               T* out, int64_t out_stride, unsigned pieces) {
  let_next_start();
  wait_for_previous();
  const int64_t row = blockIdx.x / pieces;
  const int64_t i = (blockIdx.x % pieces * static_cast<int64_t>(kEmbeddingThreads) + threadIdx.x) * N;
  if (i >= width) return;
  const int64_t id = ids[row * id_stride];
  Pack<T, N> pack;
  if (id >= 0 && id < entries) {
    pack = load_pack<T, N>(table + id * width + i);
#pragma unroll
    for (int j = 0; j < N; ++j) pack.at[j] = from_float<T>(to_float(pack.at[j]) * scale);
  } else {
#pragma unroll
    for (int j = 0; j < N; ++j) pack.at[j] = from_float<T>(0.0f);
  }
  store_pack<T, N>(out + row * out_stride + i, pack);
}

class EmbeddingRowCopy final : public Embedding {
 public:
  using Embedding::Embedding;

  std::string_view refuse(Args args) const override {
    std::string_view why = refuse_call(args);
    return why.empty() && init_.scale != 1 ? refuse_floats({&args[1]}) : why;
  }

  void forward(Context& ctx, View input_ids, View out) override {
    if (init_.scale == 1) return copy_rows({weight(), input_ids, out}, ctx.stream);
    with_packs(out.dtype(), rows_fit_packs(weight()) && rows_fit_packs(out), [&](auto type, auto n) {
      using T = typename decltype(type)::type;
      constexpr int N = decltype(n)::value;
      int64_t D = init_.embedding_dim;
      unsigned pieces = blocks_for(D, kEmbeddingThreads * N);
      launch("embedding", scale_rows<T, N>, static_cast<unsigned>(out.size(0)) * pieces, kEmbeddingThreads, 0,
             ctx.stream, input_ids.ptr<int64_t>(), input_ids.stride(0), static_cast<const T*>(weight().data()),
             init_.num_embeddings, D, static_cast<float>(init_.scale), static_cast<T*>(out.data()), out.stride(0),
             pieces);
    });
  }
};

FK_IMPLEMENTATION(Embedding, EmbeddingRowCopy, "cuda.row_copy", DeviceKind::kCuda, 0, nullptr);

}  // namespace
}  // namespace fk::cuda
