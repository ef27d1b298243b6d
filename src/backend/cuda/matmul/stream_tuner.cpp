#include "backend/cuda/matmul/stream_tuner.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "backend/cuda/device/l2_flush.h"
#include "backend/cuda/device/status.h"
#include "backend/cuda/matmul/algorithm_store.h"

namespace fk::cuda {
namespace {

// A chain of products over different matrices ranks the splits differently; steps of real models were faster with this
// choice.
int quickest(size_t cuts, cudaStream_t stream, const std::function<void(int)>& launch) {
  constexpr int kRounds = 6;
  L2Flush flush;
  cudaEvent_t start = nullptr, stop = nullptr;
  check(cudaEventCreate(&start), "Making an event");
  check(cudaEventCreate(&stop), "Making an event");
  std::vector<float> best_ms(cuts, std::numeric_limits<float>::infinity());
  // In rounds, so that a short disturbance affects only one round.
  for (int round = 0; round < kRounds; ++round) {
    for (size_t cut = 0; cut < cuts; ++cut) {
      flush.run(stream);
      check(cudaEventRecord(start, stream), "Recording an event");
      launch(static_cast<int>(cut));
      check(cudaEventRecord(stop, stream), "Recording an event");
      check(cudaEventSynchronize(stop), "Trying a product");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, start, stop), "Reading an event");
      best_ms[cut] = std::min(best_ms[cut], ms);
    }
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  // Splits with times this close are ranked differently from try to try, although they may differ in a real step: the
  // first of them is taken, which is the best guess.
  const float near = 1.02f * *std::min_element(best_ms.begin(), best_ms.end());
  return static_cast<int>(std::find_if(best_ms.begin(), best_ms.end(), [&](float ms) { return ms <= near; }) -
                          best_ms.begin());
}

AlgorithmStore& store() {
  static AlgorithmStore& only = *[] {
    cudaDeviceProp properties{};
    int device = 0;
    check(cudaGetDevice(&device), "Asking for the current device");
    check(cudaGetDeviceProperties(&properties, device), "Asking for the device's properties");
    return new AlgorithmStore(fmt::format("{} stream 2", properties.name));  // change the number when the splits change
  }();
  return only;
}

}  // namespace

int stream_cut(const MatmulProblem& p, StreamEpilogue epilogue, size_t cuts, void* handle,
               const std::function<void(int)>& launch, std::string_view format) {
  auto stream = static_cast<cudaStream_t>(handle);
  // The strides of x and out do not affect the reading of the weights.
  using Key = std::tuple<int64_t, int64_t, int64_t, DType, DType, StreamEpilogue, std::string>;
  Key key{p.rows, p.out_features, p.in_features, p.dtype, p.out_dtype, epilogue, std::string(format)};
  static std::mutex mutex;
  static std::map<Key, int> known;
  std::lock_guard lock(mutex);
  if (auto at = known.find(key); at != known.end()) return at->second;

  std::string name = fmt::format("{}x{}x{}/{}/{}/{}", p.rows, p.out_features, p.in_features, dtype_name(p.dtype),
                                 dtype_name(p.out_dtype), static_cast<int>(epilogue));
  if (!format.empty()) name += fmt::format("/{}", format);
  std::vector<unsigned char> stored = store().find(name);
  if (stored.size() == 1 && stored[0] < cuts) return known[key] = stored[0];
  cudaStreamCaptureStatus recording = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &recording), "Asking whether a stream records");
  if (recording != cudaStreamCaptureStatusNone) return 0;
  int cut = quickest(cuts, stream, launch);
  store().put(name, {static_cast<unsigned char>(cut)});
  return known[key] = cut;
}

}  // namespace fk::cuda
