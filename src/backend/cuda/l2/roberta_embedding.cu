// RobertaEmbedding on CUDA: a warp adds the three rows of a token and norms the sum in its registers.
#include "ops/l2/roberta_embedding.h"

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/l1/packs.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kWarps = 4;     // of a block
constexpr int kMaxPacks = 8;  // that a lane keeps of a row

template <class T>
struct Table {
  const T* rows;
  const int64_t* index;
  int64_t size;
};

template <class T>
struct EmbeddingCall {
  Table<T> words, types, positions;
  const T *weight, *bias;
  T* out;
  int64_t out_stride, tokens;
  unsigned width;
  float eps;
};

// A token without such a row gets zeros, as of the single operator.
template <class T, int N>
__device__ __forceinline__ Pack<T, N> row_pack(const Table<T>& table, int64_t row, unsigned width, unsigned at) {
  if (row < 0 || row >= table.size) return Pack<T, N>{};
  return load_pack<T, N>(table.rows + row * width + at);
}

template <class T>
__global__ void __launch_bounds__(32 * kWarps) embed_and_norm(const EmbeddingCall<T> call) {
  constexpr int N = kPackElements<T>;
  let_next_start();
  wait_for_previous();
  const unsigned lane = threadIdx.x % 32;
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (token >= call.tokens) return;  // whole warps
  const int64_t word = call.words.index[token], type = call.types.index[token], position = call.positions.index[token];
  Pack<T, N> v[kMaxPacks];
  auto for_packs = [&](auto&& body) {
#pragma unroll
    for (int j = 0; j < kMaxPacks; ++j) {
      const unsigned at = (lane + j * 32) * N;
      if (at < call.width) body(j, at);
    }
  };
  float sum = 0;
  for_packs([&](int j, unsigned at) {
    v[j] = row_pack<T, N>(call.words, word, call.width, at);
    const Pack<T, N> of_type = row_pack<T, N>(call.types, type, call.width, at),
                     of_position = row_pack<T, N>(call.positions, position, call.width, at);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float all = to_float(of_type.at[k]) + to_float(v[j].at[k]) + to_float(of_position.at[k]);
      v[j].at[k] = from_float<T>(all);
      sum += to_float(v[j].at[k]);
    }
  });
  const float mean = reduce_warp<Sum>(sum) / static_cast<float>(call.width);
  float squares = 0;
  for_packs([&](int j, unsigned) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float from_mean = to_float(v[j].at[k]) - mean;
      squares = fmaf(from_mean, from_mean, squares);
    }
  });
  const float scale = 1.0f / sqrtf(reduce_warp<Sum>(squares) / static_cast<float>(call.width) + call.eps);
  for_packs([&](int j, unsigned at) {
    const Pack<T, N> weight = load_pack<T, N>(call.weight + at), bias = load_pack<T, N>(call.bias + at);
#pragma unroll
    for (int k = 0; k < N; ++k)
      v[j].at[k] = from_float<T>((to_float(v[j].at[k]) - mean) * scale * to_float(weight.at[k]) + to_float(bias.at[k]));
    store_pack<T, N>(call.out + token * call.out_stride + at, v[j]);
  });
}

class WarpPerToken final : public RobertaEmbedding {
 public:
  explicit WarpPerToken(const Init& init) : RobertaEmbedding(init) {}

  std::string_view refuse(Args args) const override {
    for (int i = 0; i < 3; ++i)
      if (args[i]->dtype() != DType::kI64 || !args[i]->contiguous()) return "ids must be i64 without gaps";
    if (args[3]->dtype() != init_.dtype) return "the result must have the dtype of the weights";
    if (!rows_fit_packs(*args[3])) return "rows must start on 16 bytes";
    if (init_.hidden_size * static_cast<int64_t>(dtype_size(init_.dtype)) > 16 * 32 * kMaxPacks)
      return "rows must fit into the registers of a warp";
    if (words_.data() == nullptr) return {};  // refuse() may be called before weights are bound
    for (const View& table : {words_, types_, positions_, weight_, bias_})
      if (!rows_fit_packs(table)) return "weights must start on 16 bytes";
    return {};
  }

  void bind_parts(const Operator::PartWeight& weight) override {
    words_ = weight("word_embeddings.weight");
    types_ = weight("token_type_embeddings.weight");
    positions_ = weight("position_embeddings.weight");
    weight_ = weight("LayerNorm.weight");
    bias_ = weight("LayerNorm.bias");
  }

  void forward(Context& ctx, View input_ids, View positions, View token_type_ids, View out) override {
    const int64_t tokens = input_ids.size(0);
    if (tokens == 0) return;
    with_float_type(init_.dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      auto table = [](const View& rows, const View& index) {
        return Table<T>{static_cast<const T*>(rows.data()), index.ptr<int64_t>(), rows.size(0)};
      };
      const EmbeddingCall<T> call{.words = table(words_, input_ids),
                                  .types = table(types_, token_type_ids),
                                  .positions = table(positions_, positions),
                                  .weight = static_cast<const T*>(weight_.data()),
                                  .bias = static_cast<const T*>(bias_.data()),
                                  .out = static_cast<T*>(out.data()),
                                  .out_stride = out.stride(0),
                                  .tokens = tokens,
                                  .width = static_cast<unsigned>(init_.hidden_size),
                                  .eps = static_cast<float>(init_.layer_norm_eps)};
      launch("embed_and_norm", embed_and_norm<T>, blocks_for(tokens, kWarps), 32 * kWarps, 0, ctx.stream, call);
    });
  }

 private:
  View words_, types_, positions_, weight_, bias_;
};

FK_FUSED_IMPLEMENTATION(RobertaEmbedding, WarpPerToken, "cuda.warp_per_token", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
