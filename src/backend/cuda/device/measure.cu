// Measures the limits of the device: reading, copying, multiplying, launching.
#include <algorithm>
#include <memory>
#include <vector>

#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/measure.h"
#include "backend/cuda/matmul/cublaslt.h"
#include "core/check.h"

namespace fk::cuda {
namespace {

constexpr int kThreads = 256;

struct DeviceMemory {
  explicit DeviceMemory(size_t bytes) { check(cudaMalloc(&data, bytes), "Allocating memory to measure with"); }
  ~DeviceMemory() { cudaFree(data); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  void* data = nullptr;
};

// The sum is stored only if it has a value that never occurs; the compiler does not know this and keeps the loads.
__global__ void read_all(const uint4* data, int64_t count, unsigned* out) {
  constexpr int kInFlight = 8;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  uint4 sum{0, 0, 0, 0};
  int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  for (; i + (kInFlight - 1) * threads < count; i += kInFlight * threads) {
    uint4 loaded[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) loaded[k] = __ldcs(data + i + k * threads);
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      sum.x ^= loaded[k].x;
      sum.y ^= loaded[k].y;
      sum.z ^= loaded[k].z;
      sum.w ^= loaded[k].w;
    }
  }
  if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x9e3779b9u) *out = 1;
}

__global__ void copy_all(const uint4* from, uint4* to, int64_t count) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count; i += threads)
    to[i] = from[i];
}

__global__ void write_all(uint4* data, int64_t count) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count; i += threads)
    data[i] = uint4{1, 1, 1, 1};
}

// Eight chains of multiply-adds per thread: enough to hide their latency.
__global__ void multiply_add(float* out, float a, float b, int rounds) {
  float sum[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) sum[i] = static_cast<float>(threadIdx.x + i);
  for (int r = 0; r < rounds; ++r)
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] = fmaf(sum[i], a, b);
  float all = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) all += sum[i];
  if (all == -1.2345f) *out = all;
}

__global__ void nothing() { wait_for_previous(); }

class Clock {
 public:
  explicit Clock(cudaStream_t stream) : stream_(stream) {
    check(cudaEventCreate(&start_), "Making an event");
    check(cudaEventCreate(&stop_), "Making an event");
  }
  ~Clock() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  // Seconds of one run, the best of several.
  template <class Work>
  double best_s(int repeats, Work&& work) {
    work();
    float best_ms = 1e30f;
    for (int i = 0; i < repeats; ++i) {
      check(cudaEventRecord(start_, stream_), "Recording an event");
      work();
      check(cudaEventRecord(stop_, stream_), "Recording an event");
      check(cudaEventSynchronize(stop_), "Measuring the device");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, start_, stop_), "Reading an event");
      best_ms = std::min(best_ms, ms);
    }
    return best_ms * 1e-3;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

double measure_bf16(Clock& clock, void* stream) {
  constexpr int64_t n = 8192;
  DeviceMemory a(n * n * 2), b(n * n * 2), c(n * n * 2);
  // Constant data uses less power: the chip then stays below its power limit and shows a rate that real data does not
  // reach.
  launch_fill_dummy(View(a.data, Shape{n, n}, DType::kBF16), 1, 0, 1, 0, stream);
  launch_fill_dummy(View(b.data, Shape{n, n}, DType::kBF16), 2, 0, 1, 0, stream);
  MatmulProblem problem{.rows = n, .out_features = n, .in_features = n, .x_stride = n, .out_stride = n};
  CublasLtMatmul matmul(problem);
  double s = clock.best_s(30, [&] { matmul.run({.x = a.data, .weight = b.data, .out = c.data}, stream); });
  return 2.0 * n * n * n / s * 1e-12;
}

}  // namespace

DeviceSpeeds measure_device(void* handle) {
  auto stream = static_cast<cudaStream_t>(handle);
  int device = 0, processors = 0;
  check(cudaGetDevice(&device), "Asking for the current device");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "Asking for multiprocessors");
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "Asking for free memory");
  DeviceSpeeds speeds;
  Clock clock(stream);
  unsigned grid = static_cast<unsigned>(processors) * 8;
  {
    size_t bytes = std::min(size_t{8} << 30, free / 2) / (size_t{1} << 20) * (size_t{1} << 20);
    DeviceMemory memory(bytes);
    check(cudaMemsetAsync(memory.data, 1, bytes, stream), "Filling memory");
    auto count = static_cast<int64_t>(bytes / sizeof(uint4));
    auto* data = static_cast<uint4*>(memory.data);
    double read_s = clock.best_s(
        8, [&] { read_all<<<grid, kThreads, 0, stream>>>(data, count, reinterpret_cast<unsigned*>(data)); });
    speeds.read_gbps = static_cast<double>(bytes) / read_s * 1e-9;
    double write_s = clock.best_s(8, [&] { write_all<<<grid, kThreads, 0, stream>>>(data, count); });
    // The driver's memset may be faster.
    write_s = std::min(write_s, clock.best_s(8, [&] { cudaMemsetAsync(data, 1, bytes, stream); }));
    speeds.write_gbps = static_cast<double>(bytes) / write_s * 1e-9;
    double copy_s =
        clock.best_s(8, [&] { copy_all<<<grid, kThreads, 0, stream>>>(data, data + count / 2, count / 2); });
    speeds.copy_gbps = static_cast<double>(bytes) / copy_s * 1e-9;
  }
  speeds.bf16_tflops = measure_bf16(clock, handle);
  {
    constexpr int kRounds = 8192;
    DeviceMemory out(4);
    double s = clock.best_s(4, [&] {
      multiply_add<<<grid, kThreads, 0, stream>>>(static_cast<float*>(out.data), 0.999f, 0.001f, kRounds);
    });
    speeds.f32_tflops = 2.0 * 8 * kRounds * grid * kThreads / s * 1e-12;
  }
  constexpr int kLaunches = 1000;
  speeds.launch_us = 1e6 / kLaunches * clock.best_s(4, [&] {
    for (int i = 0; i < kLaunches; ++i) nothing<<<1, 32, 0, stream>>>();
  });
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "Beginning to record");
  for (int i = 0; i < kLaunches; ++i) launch("nothing", nothing, 1, 32, 0, stream);
  check(cudaStreamEndCapture(stream, &graph), "Recording");
  check(cudaGraphInstantiate(&executable, graph, 0), "Making a graph executable");
  speeds.recorded_launch_us = 1e6 / kLaunches * clock.best_s(4, [&] { cudaGraphLaunch(executable, stream); });
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  check(cudaStreamSynchronize(stream), "Measuring the device");
  return speeds;
}

}  // namespace fk::cuda
