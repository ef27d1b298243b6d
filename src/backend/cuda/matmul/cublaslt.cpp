#include "backend/cuda/matmul/cublaslt.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include "backend/cuda/device/l2_flush.h"
#include "backend/cuda/device/status.h"
#include "backend/cuda/matmul/add_bias.h"
#include "backend/cuda/matmul/algorithm_store.h"
#include "core/check.h"

namespace fk::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{64} << 20;
constexpr int kAlgorithmsTried = 16;

void check_lt(cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error("{} failed in cuBLASLt: {}.", what, cublasLtGetStatusString(status));
}

// Made on first use and kept: one stream means one product at a time.
struct Library {
  Library() {
    check_lt(cublasLtCreate(&handle), "Starting it");
    check(cudaMalloc(&workspace, kWorkspaceBytes), "Allocating cuBLASLt's workspace");
    cudaDeviceProp properties{};
    int device = 0;
    check(cudaGetDevice(&device), "Asking for the current device");
    check(cudaGetDeviceProperties(&properties, device), "Asking for the device's properties");
    // Change the number when algorithms are chosen in another way.
    store = std::make_unique<AlgorithmStore>(fmt::format("{} cublaslt {} 2", properties.name, cublasLtGetVersion()));
  }

  cublasLtHandle_t handle = nullptr;
  void* workspace = nullptr;
  std::unique_ptr<AlgorithmStore> store;
};

Library& library() {
  static Library& only = *new Library;
  return only;
}

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kF8E4M3:
      return CUDA_R_8F_E4M3;
    default:
      return CUDA_R_32F;
  }
}

uint32_t alignment_of(const void* address) {
  auto value = reinterpret_cast<uintptr_t>(address);
  uint32_t alignment = 256;
  while (value % alignment != 0) alignment /= 2;
  return alignment;
}

// The library adds a bias of the output's dtype; other biases are added by our own kernel to the f32 sums, without
// extra rounding.
bool adds_bias(const MatmulProblem& p) { return p.bias && (p.dtype == p.out_dtype || p.dtype == DType::kF8E4M3); }

// Row-major out = x W^T is column-major out^T = W x^T, where W^T is the layout in memory.
struct Layouts {
  explicit Layouts(const MatmulProblem& p) {
    check_lt(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "Describing a product");
    cublasOperation_t transposed = CUBLAS_OP_T;
    check_lt(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
             "Describing a product");
    if (p.gelu || adds_bias(p)) {
      cublasLtEpilogue_t epilogue = !p.gelu        ? CUBLASLT_EPILOGUE_BIAS
                                    : adds_bias(p) ? CUBLASLT_EPILOGUE_GELU_BIAS
                                                   : CUBLASLT_EPILOGUE_GELU;
      check_lt(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
               "Describing a product");
    }
    if (p.dtype == DType::kF8E4M3) {
      set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F});
      set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F});
      // Sums stay in the tensor cores, as other engines have it: off by far less than the rounding of x.
      set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
    }
    auto layout = [](cublasLtMatrixLayout_t* made, DType dtype, int64_t rows, int64_t columns, int64_t stride) {
      check_lt(cublasLtMatrixLayoutCreate(made, data_type(dtype), static_cast<uint64_t>(rows),
                                          static_cast<uint64_t>(columns), stride),
               "Describing a matrix");
    };
    layout(&weight, p.dtype, p.in_features, p.out_features, p.in_features);
    layout(&x, p.dtype, p.in_features, p.rows, p.x_stride);
    layout(&out, p.out_dtype, p.out_features, p.rows, p.out_stride);
  }
  ~Layouts() {
    cublasLtMatrixLayoutDestroy(out);
    cublasLtMatrixLayoutDestroy(x);
    cublasLtMatrixLayoutDestroy(weight);
    cublasLtMatmulDescDestroy(product);
  }
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t which, Value value) {
    check_lt(cublasLtMatmulDescSetAttribute(product, which, &value, sizeof value), "Describing a product");
  }
  // Before an algorithm is asked for.
  void set_pointers(const MatmulProblem& p, const MatmulOperands& operands) {
    if (adds_bias(p)) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
    if (p.dtype != DType::kF8E4M3) return;
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(operands.weight_scales));
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(operands.x_scales));
  }
  Layouts(const Layouts&) = delete;
  Layouts& operator=(const Layouts&) = delete;

  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t weight = nullptr, x = nullptr, out = nullptr;
};

using Algorithms = std::vector<cublasLtMatmulAlgo_t>;

Algorithms propose(const Layouts& layouts, const MatmulOperands& operands) {
  cublasLtMatmulPreference_t preference = nullptr;
  check_lt(cublasLtMatmulPreferenceCreate(&preference), "Asking for algorithms");
  auto set = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
    check_lt(cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value), "Asking for algorithms");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceBytes});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(operands.weight));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(operands.x));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(operands.out));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(operands.out));
  cublasLtMatmulHeuristicResult_t found[kAlgorithmsTried];
  int count = 0;
  cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library().handle, layouts.product, layouts.weight, layouts.x, layouts.out,
                                     layouts.out, preference, kAlgorithmsTried, found, &count);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS) count = 0;
  Algorithms algorithms;
  for (int i = 0; i < count; ++i)
    if (found[i].state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(found[i].algo);
  return algorithms;
}

bool multiply(const Layouts& layouts, const MatmulOperands& operands, const cublasLtMatmulAlgo_t& algorithm,
              cudaStream_t stream) {
  const float one = 1, zero = 0;
  Library& lt = library();
  return cublasLtMatmul(lt.handle, layouts.product, &one, operands.weight, layouts.weight, operands.x, layouts.x, &zero,
                        operands.out, layouts.out, operands.out, layouts.out, &algorithm, lt.workspace, kWorkspaceBytes,
                        stream) == CUBLAS_STATUS_SUCCESS;
}

// Times every proposed algorithm on the real operands, in rounds, so that a short disturbance affects only one round.
// Weights are read from memory, as in a model: other algorithms win where they are in the L2.
cublasLtMatmulAlgo_t quickest(const Layouts& layouts, const MatmulOperands& operands, const Algorithms& proposals,
                              cudaStream_t stream) {
  constexpr int kRounds = 4;
  cudaEvent_t start = nullptr, stop = nullptr;
  check(cudaEventCreate(&start), "Making an event");
  check(cudaEventCreate(&stop), "Making an event");
  std::vector<float> best_ms(proposals.size(), std::numeric_limits<float>::infinity());
  const L2Flush flush;
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < proposals.size(); ++i) {
      flush.run(stream);
      check(cudaEventRecord(start, stream), "Recording an event");
      bool ran = multiply(layouts, operands, proposals[i], stream);
      check(cudaEventRecord(stop, stream), "Recording an event");
      check(cudaEventSynchronize(stop), "Trying a product");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, start, stop), "Reading an event");
      if (ran && round > 0) best_ms[i] = std::min(best_ms[i], ms);
    }
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  return proposals[static_cast<size_t>(std::min_element(best_ms.begin(), best_ms.end()) - best_ms.begin())];
}

bool recording(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), "Asking whether a stream records");
  return status != cudaStreamCaptureStatusNone;
}

std::string key_of(const MatmulProblem& p, uint32_t alignment) {
  return fmt::format("{}x{}x{}/{}/{}/{}/{}/{}{}/{}", p.rows, p.out_features, p.in_features, p.x_stride, p.out_stride,
                     dtype_name(p.dtype), dtype_name(p.out_dtype), p.bias ? "bias" : "plain", p.gelu ? "-gelu" : "",
                     alignment);
}

uint32_t common_alignment(const MatmulOperands& o) {
  return std::min({alignment_of(o.x), alignment_of(o.weight), alignment_of(o.out)});
}

}  // namespace

struct CublasLtMatmul::State {
  explicit State(const MatmulProblem& p) : problem(p), layouts(p) {}

  const cublasLtMatmulAlgo_t& algorithm(const MatmulOperands& operands, cudaStream_t stream) {
    uint32_t alignment = common_alignment(operands);
    auto at = chosen.find(alignment);
    if (at == chosen.end()) at = chosen.emplace(alignment, choose(operands, alignment, stream)).first;
    return at->second;
  }

  cublasLtMatmulAlgo_t choose(const MatmulOperands& operands, uint32_t alignment, cudaStream_t stream) {
    std::string key = key_of(problem, alignment);
    cublasLtMatmulAlgo_t algorithm{};
    std::vector<unsigned char> stored = library().store->find(key);
    if (stored.size() == sizeof algorithm) {
      std::memcpy(&algorithm, stored.data(), sizeof algorithm);
      // A file may be outdated or damaged: only algorithms that the library accepts are used.
      cublasLtMatmulHeuristicResult_t result{};
      if (cublasLtMatmulAlgoCheck(library().handle, layouts.product, layouts.weight, layouts.x, layouts.out,
                                  layouts.out, &algorithm, &result) == CUBLAS_STATUS_SUCCESS &&
          result.workspaceSize <= kWorkspaceBytes)
        return algorithm;
    }
    Algorithms proposals = propose(layouts, operands);
    if (proposals.empty())
      throw Error("cuBLASLt has no algorithm for {} x {} x {} in {}; report this shape.", problem.rows,
                  problem.out_features, problem.in_features, dtype_name(problem.dtype));
    if (recording(stream)) return proposals.front();
    algorithm = quickest(layouts, operands, proposals, stream);
    std::vector<unsigned char> bytes(sizeof algorithm);
    std::memcpy(bytes.data(), &algorithm, sizeof algorithm);
    library().store->put(key, bytes);
    return algorithm;
  }

  MatmulProblem problem;
  Layouts layouts;
  std::map<uint32_t, cublasLtMatmulAlgo_t> chosen;  // by alignment
  std::map<uint32_t, bool> runs;                    // likewise
};

std::string_view cublaslt_refusal(const MatmulProblem& p, const MatmulOperands& operands) {
  if (p.dtype != DType::kBF16 && p.dtype != DType::kF16 && p.dtype != DType::kF32)
    return "it multiplies bf16, f16 and f32";
  // Without 16-byte alignment of rows its tensor core kernels cannot be used, and it may have none at all.
  auto element = static_cast<int64_t>(dtype_size(p.dtype));
  if (p.in_features * element % 16 != 0 || p.x_stride * element % 16 != 0 ||
      p.out_stride * static_cast<int64_t>(dtype_size(p.out_dtype)) % 16 != 0 || common_alignment(operands) < 16)
    return "rows must start on 16 bytes";
  if (p.gelu && (p.dtype == DType::kF32 || p.dtype != p.out_dtype)) return "it applies gelu in bf16 and f16";
  return {};
}

CublasLtMatmul::CublasLtMatmul(const MatmulProblem& problem) : state_(std::make_unique<State>(problem)) {}
CublasLtMatmul::~CublasLtMatmul() = default;
CublasLtMatmul::CublasLtMatmul(CublasLtMatmul&&) noexcept = default;
CublasLtMatmul& CublasLtMatmul::operator=(CublasLtMatmul&&) noexcept = default;

bool CublasLtMatmul::supported(const MatmulOperands& operands, void* stream) {
  auto [at, is_new] = state_->runs.try_emplace(common_alignment(operands), false);
  if (!is_new) return at->second;
  state_->layouts.set_pointers(state_->problem, operands);
  Algorithms proposals = propose(state_->layouts, operands);
  at->second =
      !proposals.empty() && multiply(state_->layouts, operands, proposals.front(), static_cast<cudaStream_t>(stream));
  return at->second;
}

void CublasLtMatmul::run(const MatmulOperands& operands, void* stream) {
  auto cuda_stream = static_cast<cudaStream_t>(stream);
  state_->layouts.set_pointers(state_->problem, operands);
  const cublasLtMatmulAlgo_t& algorithm = state_->algorithm(operands, cuda_stream);
  if (!multiply(state_->layouts, operands, algorithm, cuda_stream))
    throw Error("cuBLASLt refused a product of {} x {} x {} it had an algorithm for.", state_->problem.rows,
                state_->problem.out_features, state_->problem.in_features);
  if (state_->problem.bias && !adds_bias(state_->problem))
    add_bias(state_->problem, operands.bias, operands.out, stream);
}

}  // namespace fk::cuda
