// The CUDA implementation of core's DeviceRuntime.
#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/device/judging.h"
#include "backend/cuda/device/measure.h"
#include "backend/cuda/device/status.h"
#include "core/device_runtime.h"
#include "core/device_thread.h"
#include "core/tuned_choice.h"

namespace fk::cuda {
namespace {

constexpr double kGiB = 0x1p30;

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, index), "Asking for a device attribute");
  return value;
}

DeviceFacts read_facts(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "Asking for the device's properties");
  int driver = 0, library = 0;
  check(cudaDriverGetVersion(&driver), "Asking for the driver's version");
  check(cudaRuntimeGetVersion(&library), "Asking for the library's version");
  DeviceFacts facts;
  facts.name = properties.name;
  facts.architecture = fmt::format("sm_{}{}", properties.major, properties.minor);
  facts.driver = "CUDA " + version_text(driver);
  facts.library = "CUDA " + version_text(library);
  facts.multiprocessors = properties.multiProcessorCount;
  facts.memory_bytes = properties.totalGlobalMem;
  facts.l2_bytes = static_cast<uint64_t>(properties.l2CacheSize);
  facts.clock_mhz = attribute(cudaDevAttrClockRate, index) / 1000;
  return facts;
}

class Graph final : public RecordedWork {
 public:
  Graph(cudaGraph_t graph, cudaStream_t stream) : stream_(stream) {
    cudaError_t status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check(status, "Making a graph executable");
    check(cudaGraphUpload(executable_, stream), "Uploading a graph");
  }
  ~Graph() override { cudaGraphExecDestroy(executable_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch() override { check(cudaGraphLaunch(executable_, stream_), "Launching a graph"); }

 private:
  cudaGraphExec_t executable_ = nullptr;
  cudaStream_t stream_;
};

class Event final : public DeviceEvent {
 public:
  explicit Event(cudaStream_t stream) : stream_(stream) { check(cudaEventCreate(&event_), "Making an event"); }
  ~Event() override { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record() override { check(cudaEventRecord(event_, stream_), "Recording an event"); }
  void wait() override { check(cudaEventSynchronize(event_), "Work before an event"); }
  double elapsed_ms_since(const DeviceEvent& start) override {
    wait();
    float ms = 0;
    check(cudaEventElapsedTime(&ms, static_cast<const Event&>(start).event_, event_), "Reading an event");
    return ms;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t event_ = nullptr;
};

class Runtime final : public DeviceRuntime {
 public:
  explicit Runtime(int index) : device_{DeviceKind::kCuda, static_cast<int8_t>(index)} {
    check(cudaSetDevice(index), "Selecting the device");
    facts_ = read_facts(index);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "Making a stream");
  }

  Device device() const override { return device_; }
  const DeviceFacts& facts() const override { return facts_; }
  DeviceSpeeds measure() override { return measure_device(stream_); }

  size_t free_bytes() override {
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "Asking for free memory");
    return free;
  }

  void* allocate(size_t size_bytes) override {
    void* address = nullptr;
    if (cudaError_t status = cudaMalloc(&address, size_bytes); status != cudaErrorMemoryAllocation) {
      check(status, "Allocating memory");
      return address;
    }
    cudaGetLastError();
    throw Error(
        "{} has {:.2f} GiB of memory free and {:.2f} GiB were asked for; use a smaller model, batch or context.",
        device_name(device_), static_cast<double>(free_bytes()) / kGiB, static_cast<double>(size_bytes) / kGiB);
  }
  void release(void* address) noexcept override { cudaFree(address); }
  void* allocate_host(size_t size_bytes) override {
    void* address = nullptr;
    check(cudaMallocHost(&address, size_bytes), "Pinning host memory");
    return address;
  }
  void release_host(void* address) noexcept override { cudaFreeHost(address); }

  void upload(void* to, const void* from, size_t size_bytes) override {
    check(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyHostToDevice, stream_), "Copying to the device");
  }
  void download(void* to, const void* from, size_t size_bytes) override {
    download_later(to, from, size_bytes);
    synchronize();
  }
  void download_later(void* to, const void* from, size_t size_bytes) override {
    check(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDeviceToHost, stream_), "Copying from the device");
  }
  void copy(void* to, const void* from, size_t size_bytes) override {
    check(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDeviceToDevice, stream_), "Copying on the device");
  }
  void fill(void* to, std::byte value, size_t size_bytes) override {
    check(cudaMemsetAsync(to, static_cast<int>(value), size_bytes, stream_), "Filling memory");
  }
  void fill_dummy(const View& to, uint64_t key, float offset, float scale, int64_t first) override {
    launch_fill_dummy(to, key, offset, scale, first, stream_);
  }

  std::optional<bool> all_finite(const View& values) override {
    if (values.dtype() != DType::kF32 && values.dtype() != DType::kBF16 && values.dtype() != DType::kF16)
      return std::nullopt;
    if (found_ == nullptr) found_ = static_cast<unsigned*>(allocate(sizeof(unsigned)));
    fill(found_, std::byte{0}, sizeof(unsigned));
    launch_find_not_finite(values, found_, stream_);
    unsigned found = 0;
    download(&found, found_, sizeof found);
    return found == 0;
  }

  void synchronize() override { check(cudaStreamSynchronize(stream_), "Work before this point"); }
  void* stream() override { return stream_; }

  void begin_recording() override {
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "Beginning to record");
  }
  std::unique_ptr<RecordedWork> end_recording() override {
    ++recordings_;
    return recorded();
  }
  void abandon_recording() noexcept override {
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
  }
  int64_t recordings() const override { return recordings_; }

  void tune(const std::function<void()>& work) override {
    Event start(stream_), stop(stream_);
    auto replay = [&](RecordedWork& step, int times) {
      start.record();
      for (int i = 0; i < times; ++i) step.launch();
      stop.record();
      return stop.elapsed_ms_since(start) / times;
    };
    tune_step({.record =
                   [&] {
                     begin_recording();
                     try {
                       work();
                     } catch (...) {
                       abandon_recording();
                       throw;
                     }
                     return recorded();
                   },
               .time_ms =
                   [&, times = 0](RecordedWork& step) mutable {
                     constexpr double kEnoughMs = 5;  // several short steps: one after the other, as in decoding
                     if (times == 0) times = std::clamp(static_cast<int>(kEnoughMs / replay(step, 1)), 1, 64);
                     return replay(step, times);
                   }});
  }

  std::unique_ptr<DeviceEvent> make_event() override { return std::make_unique<Event>(stream_); }
  DeviceJudging& judging() override {
    if (!judging_) judging_ = make_judging(device_.index, stream_);
    return *judging_;
  }

 private:
  std::unique_ptr<RecordedWork> recorded() {
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream_, &graph), "Recording");
    return std::make_unique<Graph>(graph, stream_);
  }

  Device device_;
  DeviceFacts facts_;
  cudaStream_t stream_ = nullptr;  // exists until the process ends
  int64_t recordings_ = 0;
  unsigned* found_ = nullptr;               // of all_finite(), allocated on first use
  std::unique_ptr<DeviceJudging> judging_;  // created on first use
};

int count() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return devices;
}

std::string unavailable(int index) {
  int devices = 0;
  cudaError_t status = cudaGetDeviceCount(&devices);
  cudaGetLastError();
  if (status == cudaErrorInsufficientDriver)
    return "the NVIDIA driver is missing or older than CUDA " + version_text(CUDART_VERSION) +
           " needs; install a newer driver, or use --device cpu";
  if (status == cudaErrorNoDevice || (status == cudaSuccess && devices == 0))
    return "no NVIDIA GPU was found; use --device cpu";
  if (status != cudaSuccess)
    return fmt::format("CUDA does not start here ({}); check the driver with nvidia-smi", cudaGetErrorString(status));
  if (index >= devices)
    return fmt::format("this machine has {} GPU{}, cuda:0 to cuda:{}", devices, devices == 1 ? "" : "s", devices - 1);
  status = static_cast<cudaError_t>(code_status(index));
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction) {
    int major = attribute(cudaDevAttrComputeCapabilityMajor, index);
    int minor = attribute(cudaDevAttrComputeCapabilityMinor, index);
    return fmt::format(
        "this program holds kernels for architecture {} and the device is {}{}; configure with -DFK_CUDA_ARCH={}{}",
        FK_CUDA_ARCH, major, minor, major, minor);
  }
  if (status != cudaSuccess)
    return fmt::format("an earlier kernel broke the GPU for this process ({}); start it again",
                       cudaGetErrorString(status));
  return {};
}

std::unique_ptr<DeviceRuntime> open(int index) { return std::make_unique<Runtime>(index); }

[[maybe_unused]] const bool registered =
    register_device_driver(DeviceKind::kCuda, {.count = count, .unavailable = unavailable, .open = open});
[[maybe_unused]] const bool selected = register_device_selection(
    DeviceKind::kCuda, [](int index) { check(cudaSetDevice(index), "Selecting the device"); });

}  // namespace
}  // namespace fk::cuda
