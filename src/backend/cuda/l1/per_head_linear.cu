// PerHeadLinear on CUDA. Few tokens: every element of the matrices is read once, in packs of the memory order, for up
// to eight tokens. Many: tensor cores, a block for 64 tokens and 64 outputs of a head.
#include "ops/l1/per_head_linear.h"

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "backend/cuda/device/tile.cuh"
#include "backend/cuda/l1/call.h"
#include "backend/cuda/l1/per_head_call.cuh"
#include "backend/cuda/quantised/pairs.cuh"
#include "ops/register.h"

namespace fk::cuda {
namespace {

constexpr int kHeadTokens = 8;  // at a time

// Elements of a matrix as they are, or FP8 codes with a scale for blocks of 128 x 128, for a row, or for all.
template <class W>
struct HeadMatrix {
  const W* at;
  const float* scales = nullptr;
  int64_t scale_columns = 0;  // blocks: scales of a row of blocks
  int row_block = 1, column_block = 1;

  __device__ __forceinline__ float element(int64_t row, int64_t column, int64_t columns) const {
    if constexpr (sizeof(W) == 1)
      return code(row * columns + column) * scales[row / row_block * scale_columns + column / column_block];
    else
      return to_float(at[row * columns + column]);
  }

 private:
  __device__ __forceinline__ float code(int64_t index) const {
    const auto bits = reinterpret_cast<const uint8_t*>(at)[index];
    return (bits & 0x7f) == 0x7f ? __int_as_float(0x7fc00000) : e4m3_value(bits);
  }
};

template <class T>
struct HeadRows {
  T* at;
  int64_t token, head;
};

struct HeadSizes {
  int tokens, in, out, rows_per_head, first_row;
};

// x W^T: a warp for each output, whose row it reads across its lanes.
template <class T, class W>
__global__ void __launch_bounds__(256)
    rows_of_output(HeadMatrix<W> w, HeadRows<const T> x, HeadRows<T> out, HeadSizes size) {
  let_next_start();
  wait_for_previous();
  const int lane = threadIdx.x % 32, n = static_cast<int>(blockIdx.x) * 8 + static_cast<int>(threadIdx.x) / 32;
  const int h = blockIdx.y, first = static_cast<int>(blockIdx.z) * kHeadTokens;
  if (n >= size.out) return;
  const int64_t row = static_cast<int64_t>(h) * size.rows_per_head + size.first_row + n;
  float sum[kHeadTokens] = {};
  for (int k = lane; k < size.in; k += 32) {
    const float element = w.element(row, k, size.in);
#pragma unroll
    for (int t = 0; t < kHeadTokens; ++t)
      if (first + t < size.tokens) sum[t] += element * to_float(x.at[(first + t) * x.token + h * x.head + k]);
  }
#pragma unroll
  for (int t = 0; t < kHeadTokens; ++t) {
    const float total = reduce_warp<Sum>(sum[t]);
    if (lane == 0 && first + t < size.tokens) out.at[(first + t) * out.token + h * out.head + n] = from_float<T>(total);
  }
}

// x W: a thread for each output, neighbours of which lie side by side in every row.
template <class T, class W>
__global__ void __launch_bounds__(128)
    rows_of_input(HeadMatrix<W> w, HeadRows<const T> x, HeadRows<T> out, HeadSizes size) {
  extern __shared__ float inputs[];  // [kHeadTokens][in]
  let_next_start();
  wait_for_previous();
  const int n = static_cast<int>(blockIdx.x) * 128 + static_cast<int>(threadIdx.x);
  const int h = blockIdx.y, first = static_cast<int>(blockIdx.z) * kHeadTokens;
  for (int i = threadIdx.x; i < kHeadTokens * size.in; i += 128) {
    const int t = i / size.in;
    inputs[i] = first + t < size.tokens ? to_float(x.at[(first + t) * x.token + h * x.head + i % size.in]) : 0.0f;
  }
  __syncthreads();
  if (n >= size.out) return;
  const int64_t row = static_cast<int64_t>(h) * size.rows_per_head + size.first_row;
  float sum[kHeadTokens] = {};
#pragma unroll 8
  for (int k = 0; k < size.in; ++k) {
    const float element = w.element(row + k, n, size.out);
#pragma unroll
    for (int t = 0; t < kHeadTokens; ++t) sum[t] += element * inputs[t * size.in + k];
  }
#pragma unroll
  for (int t = 0; t < kHeadTokens; ++t)
    if (first + t < size.tokens) out.at[(first + t) * out.token + h * out.head + n] = from_float<T>(sum[t]);
}

constexpr int kGemmTokens = 64, kGemmOutputs = 64, kGemmStep = 64, kGemmThreads = 128;
constexpr uint32_t kGemmTileBytes = 2 * 64 * 64;

// A warp has 16 tokens and all outputs of the block.
template <class T, bool kTransposed>
__global__ void __launch_bounds__(kGemmThreads)
    tiles_of_heads(const T* w, HeadRows<const T> x, HeadRows<T> out, HeadSizes size) {
  __shared__ __align__(128) unsigned char shared[4 * kGemmTileBytes];
  const auto base = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  auto x_tile = [&](int buffer) { return Tile<64>{base + 2 * buffer * kGemmTileBytes}; };
  auto w_tile = [&](int buffer) { return Tile<64>{base + (2 * buffer + 1) * kGemmTileBytes}; };
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_token = static_cast<int>(blockIdx.x) * kGemmTokens,
            first_out = static_cast<int>(blockIdx.y) * kGemmOutputs;
  const int h = blockIdx.z;
  const T* matrix =
      w + (static_cast<int64_t>(h) * size.rows_per_head + size.first_row) * (kTransposed ? size.out : size.in);
  let_next_start();
  wait_for_previous();

  auto load = [&](int k, int buffer) {
#pragma unroll
    for (int i = 0; i < 64 * 8 / kGemmThreads; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kGemmThreads, row = at / 8, chunk = at % 8;
      const bool in_x = first_token + row < size.tokens && k + 8 * chunk < size.in;
      copy_async(x_tile(buffer).chunk(row, chunk),
                 in_x ? x.at + (first_token + row) * x.token + h * x.head + k + 8 * chunk : x.at, in_x);
      // Rows of the tile: inputs where the matrix is stored by inputs, else outputs.
      const int w_row = kTransposed ? k + row : first_out + row, column = (kTransposed ? first_out : k) + 8 * chunk;
      const bool in_w = w_row < (kTransposed ? size.in : size.out) && column < (kTransposed ? size.out : size.in);
      copy_async(w_tile(buffer).chunk(row, chunk),
                 in_w ? matrix + static_cast<int64_t>(w_row) * (kTransposed ? size.out : size.in) + column : matrix,
                 in_w);
    }
  };

  float sum[kGemmOutputs / 8][4] = {};
  load(0, 0);
  commit_copies();
  int buffer = 0;
  for (int k = 0; k < size.in; k += kGemmStep, buffer ^= 1) {
    if (k + kGemmStep < size.in) load(k + kGemmStep, buffer ^ 1);
    commit_copies();
    wait_copies<1>();
    __syncthreads();
#pragma unroll
    for (int step = 0; step < kGemmStep / 16; ++step) {
      uint32_t a[4];
      load_matrices(a, x_tile(buffer).chunk(warp * 16 + lane % 16, 2 * step + lane / 16));
#pragma unroll
      for (int n = 0; n < kGemmOutputs / 16; ++n) {
        uint32_t b[4];
        if constexpr (kTransposed)
          load_matrices_transposed(b, w_tile(buffer).chunk(step * 16 + lane % 16, 2 * n + lane / 16));
        else
          load_matrices(b, w_tile(buffer).chunk(n * 16 + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
        multiply_tile<T>(sum[2 * n], a[0], a[1], a[2], a[3], b[0], b[1]);
        multiply_tile<T>(sum[2 * n + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
      }
    }
    __syncthreads();  // before the next copies overwrite this buffer
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int token = first_token + warp * 16 + lane / 4 + 8 * r;
    if (token >= size.tokens) continue;
    T* to = out.at + token * out.token + h * out.head + first_out + 2 * (lane % 4);
#pragma unroll
    for (int n = 0; n < kGemmOutputs / 8; ++n)
      if (first_out + 8 * n < size.out)
        *reinterpret_cast<uint32_t*>(to + 8 * n) = pack_two<T>(sum[n][2 * r], sum[n][2 * r + 1]);
  }
}

class CudaPerHeadLinear : public PerHeadLinear {
 public:
  using PerHeadLinear::PerHeadLinear;

 protected:
  HeadSizes sizes(const View& x) const {
    return {static_cast<int>(x.size(0)), static_cast<int>(init_.in_features), static_cast<int>(init_.out_features),
            static_cast<int>(init_.rows_per_head), static_cast<int>(init_.first_row)};
  }
  template <class T>
  static HeadRows<T> rows_of(const View& v) {
    return {static_cast<T*>(v.data()), v.stride(0), v.stride(1)};
  }
};

class PerHeadLinearStream final : public CudaPerHeadLinear {
 public:
  using CudaPerHeadLinear::CudaPerHeadLinear;

  std::string_view refuse(Args args) const override {
    if (std::string_view why = refuse_call(args); !why.empty()) return why;
    if (format_ != nullptr && !init_.weight_format.starts_with("fp8_")) return "of formats it knows FP8";
    if (init_.in_features > kMostInputs) return "heads may have 1024 inputs at most";
    return refuse_floats({&args[0], &args[1]});
  }

  void forward(Context& ctx, View x, View out) override {
    if (x.size(0) == 0) return;
    with_float_type(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      if (format_ == nullptr) {
        multiply<T>(HeadMatrix<T>{static_cast<const T*>(weight().data())}, x, out, ctx.stream);
        return;
      }
      HeadMatrix<uint8_t> matrix{static_cast<const uint8_t*>(weight().data()), param(1).ptr<float>()};
      // One scale of all, one for each row, or one for each block: as many columns as the scales have.
      const View& scales = param(1);
      const bool blocks = scales.rank() == 2 && scales.size(0) != weight().size(0);
      matrix.scale_columns = scales.rank() == 2 ? scales.size(1) : 0;
      matrix.row_block = blocks ? 128 : 1;
      matrix.column_block = blocks ? 128 : static_cast<int>(columns(init_));
      multiply<T>(matrix, x, out, ctx.stream);
    });
  }

 private:
  static constexpr int64_t kMostInputs = 1024;  // of kHeadTokens tokens as floats in shared memory

  template <class T, class W>
  void multiply(const HeadMatrix<W>& matrix, const View& x, const View& out, void* stream) const {
    const auto heads = static_cast<unsigned>(init_.num_heads), rounds = blocks_for(x.size(0), kHeadTokens);
    if (init_.transposed)
      launch("per_head_linear", rows_of_input<T, W>, dim3(blocks_for(init_.out_features, 128), heads, rounds), 128,
             static_cast<size_t>(kHeadTokens * init_.in_features) * sizeof(float), stream, matrix, rows_of<const T>(x),
             rows_of<T>(out), sizes(x));
    else
      launch("per_head_linear", rows_of_output<T, W>, dim3(blocks_for(init_.out_features, 8), heads, rounds), 256, 0,
             stream, matrix, rows_of<const T>(x), rows_of<T>(out), sizes(x));
  }
};

class PerHeadLinearMma final : public CudaPerHeadLinear {
 public:
  using CudaPerHeadLinear::CudaPerHeadLinear;

  std::string_view refuse(Args args) const override {
    if (std::string_view why = refuse_call(args); !why.empty()) return why;
    if (args[0]->size(0) <= kHeadTokens) return "so few tokens are faster with plain sums";
    return refuse_packed_heads(init_, args, has_param(0) ? weight().data() : nullptr);
  }

  void forward(Context& ctx, View x, View out) override {
    if (x.dtype() == DType::kBF16)
      run<__nv_bfloat16>(x, out, ctx.stream);
    else
      run<__half>(x, out, ctx.stream);
  }

 private:
  template <class T>
  void run(const View& x, const View& out, void* stream) const {
    dim3 grid(blocks_for(x.size(0), kGemmTokens), blocks_for(init_.out_features, kGemmOutputs),
              static_cast<unsigned>(init_.num_heads));
    auto* kernel = init_.transposed ? tiles_of_heads<T, true> : tiles_of_heads<T, false>;
    launch("per_head_linear_tiles", kernel, grid, kGemmThreads, 0, stream, static_cast<const T*>(weight().data()),
           rows_of<const T>(x), rows_of<T>(out), sizes(x));
  }
};

FK_IMPLEMENTATION(PerHeadLinear, PerHeadLinearMma, "cuda.mma", DeviceKind::kCuda, 200, nullptr);
FK_IMPLEMENTATION(PerHeadLinear, PerHeadLinearStream, "cuda.stream_weights", DeviceKind::kCuda, 100, nullptr);

}  // namespace
}  // namespace fk::cuda
