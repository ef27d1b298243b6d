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
#include "core/check.h"
#include "core/tuned_choice.h"

namespace fk::cuda {
namespace {

// The time of every split alone, in ms, with an empty L2.
std::vector<float> times_alone(size_t cuts, cudaStream_t stream, const std::function<void(int)>& launch) {
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
  return best_ms;
}

// The choice by times alone. Splits that are up to a third slower alone may be the fastest in a step: their blocks may
// end early, which makes room for the next kernel.
void choose_alone(TunedChoice& choice, const std::vector<float>& times_ms) {
  const float best = *std::min_element(times_ms.begin(), times_ms.end());
  // Of splits with times this close, which are ranked differently from try to try, the first is the best guess.
  choice.chosen = static_cast<int>(
      std::find_if(times_ms.begin(), times_ms.end(), [&](float ms) { return ms <= 1.02f * best; }) - times_ms.begin());
  for (size_t cut = 0; cut < times_ms.size(); ++cut)
    if (times_ms[cut] <= 1.33f * best) choice.contenders.push_back(static_cast<int>(cut));
}

// In a file: whether a step made the choice, the choice, the contenders.
std::vector<unsigned char> stored_form(const TunedChoice& choice) {
  std::vector<unsigned char> bytes{static_cast<unsigned char>(choice.made_in_step),
                                   static_cast<unsigned char>(choice.chosen)};
  for (int contender : choice.contenders) bytes.push_back(static_cast<unsigned char>(contender));
  return bytes;
}

bool read_stored(const std::vector<unsigned char>& bytes, size_t cuts, TunedChoice& choice) {
  if (bytes.size() < 3 || std::any_of(bytes.begin() + 1, bytes.end(), [&](unsigned char c) { return c >= cuts; }))
    return false;
  choice.made_in_step = bytes[0] != 0;
  choice.chosen = bytes[1];
  choice.contenders.assign(bytes.begin() + 2, bytes.end());
  return true;
}

AlgorithmStore& store() {
  static AlgorithmStore& only = *[] {
    cudaDeviceProp properties{};
    int device = 0;
    check(cudaGetDevice(&device), "Asking for the current device");
    check(cudaGetDeviceProperties(&properties, device), "Asking for the device's properties");
    return new AlgorithmStore(fmt::format("{} stream 3", properties.name));  // change the number when the splits change
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
  static std::map<Key, TunedChoice> known;
  std::lock_guard lock(mutex);
  if (auto at = known.find(key); at != known.end()) {
    FK_CHECK(static_cast<size_t>(at->second.chosen) < cuts, "equal keys must have equal splits");
    return use(at->second);
  }

  std::string name = fmt::format("{}x{}x{}/{}/{}/{}", p.rows, p.out_features, p.in_features, dtype_name(p.dtype),
                                 dtype_name(p.out_dtype), static_cast<int>(epilogue));
  if (!format.empty()) name += fmt::format("/{}", format);
  TunedChoice choice;
  if (!read_stored(store().find(name), cuts, choice)) {
    cudaStreamCaptureStatus recording = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(stream, &recording), "Asking whether a stream records");
    if (recording != cudaStreamCaptureStatusNone) return 0;
    choose_alone(choice, times_alone(cuts, stream, launch));
    store().put(name, stored_form(choice));
  }
  TunedChoice& kept = known[key] = std::move(choice);
  kept.keep = [&kept, name] { store().put(name, stored_form(kept)); };
  return use(kept);
}

}  // namespace fk::cuda
