// The judge's functions on a GPU: checksums, masks, held streams, cold caches and bandwidth.
#include "backend/cuda/device/judging.h"

#include <cuda_profiler_api.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <deque>

#include "backend/cuda/device/element.cuh"
#include "backend/cuda/device/launch.cuh"
#include "backend/cuda/device/reduce.cuh"
#include "core/check.h"

namespace fk::cuda {
namespace {

constexpr int kThreads = 256;
constexpr size_t kMostRanges = 4096;  // in one launch; more need several

// A bijection on 64 bits that spreads every bit over all of them (the finaliser of splitmix64).
__host__ __device__ inline uint64_t mixed(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Up to 8 bytes from any address, the missing ones zero.
__device__ inline uint64_t load_word(const uint8_t* at, size_t bytes) {
  if (bytes >= 8 && reinterpret_cast<uintptr_t>(at) % 8 == 0) return *reinterpret_cast<const uint64_t*>(at);
  uint64_t word = 0;
  for (size_t i = 0; i < min(bytes, size_t{8}); ++i) word |= static_cast<uint64_t>(at[i]) << (8 * i);
  return word;
}

// The sum over words of a hash of content and position: independent of the order, so deterministic.
__global__ void fingerprint_ranges(const DeviceRange* ranges, unsigned long long* sums) {
  const DeviceRange range = ranges[blockIdx.y];
  const auto* bytes = static_cast<const uint8_t*>(range.address);
  const size_t words = (range.size_bytes + 7) / 8;
  uint64_t sum = 0;
  for (size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x; i < words; i += size_t{gridDim.x} * kThreads)
    sum += mixed(load_word(bytes + 8 * i, range.size_bytes - 8 * i) ^ mixed(i + 1));
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  if (threadIdx.x % 32 == 0 && sum != 0) atomicAdd(sums + blockIdx.y, static_cast<unsigned long long>(sum));
}

// The first bytes of a word, up to 8, to any address.
__device__ inline void store_word(uint8_t* at, uint64_t word, size_t bytes) {
  if (bytes >= 8 && reinterpret_cast<uintptr_t>(at) % 8 == 0) {
    *reinterpret_cast<uint64_t*>(at) = word;
    return;
  }
  for (size_t i = 0; i < min(bytes, size_t{8}); ++i) at[i] = static_cast<uint8_t>(word >> (8 * i));
}

__global__ void write_ranges(const DeviceWrite* writes, uint64_t key) {
  const DeviceWrite write = writes[blockIdx.y];
  const auto* from = static_cast<const uint8_t*>(write.from);
  auto* to = static_cast<uint8_t*>(write.to);
  const size_t words = (write.size_bytes + 7) / 8;
  for (size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x; i < words; i += size_t{gridDim.x} * kThreads) {
    const size_t left = write.size_bytes - 8 * i;
    uint64_t word = from != nullptr ? load_word(from + 8 * i, left) : write.value * 0x0101010101010101ull;
    if (write.masked) word ^= mixed(key + i);
    store_word(to + 8 * i, word, left);
  }
}

template <class U>
__global__ void copy_pieces(U* to, const U* set, Pieces pieces) {
  for (int64_t number = blockIdx.x; number < pieces.count(); number += gridDim.x) {
    const Pieces::Piece p = pieces.piece(number);
    for (int64_t i = p.begin + threadIdx.x; i < p.end; i += kThreads) {
      const U chosen = pieces.chosen(set[i + p.from], set[i + p.other], p, i);
      to[i] = pieces.scales(p) ? pieces.scaled(chosen, p) : chosen;
    }
  }
}

struct ApartBox {
  unsigned largest;  // |b|, as bits: in the order of the numbers
  unsigned long long count;
};

template <class T>
__global__ void find_largest(const T* b, int64_t n, ApartBox* box) {
  float largest = 0;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < n; i += int64_t{gridDim.x} * kThreads)
    if (const float v = fabsf(to_float(b[i])); isfinite(v)) largest = fmaxf(largest, v);
  largest = reduce_warp<Max>(largest);
  if (threadIdx.x % 32 == 0) atomicMax(&box->largest, __float_as_uint(largest));
}

template <class T>
__global__ void count_beyond(const T* a, const T* b, int64_t n, Apart allowed, ApartBox* box) {
  const double fixed = allowed.absolute + allowed.of_scale * static_cast<double>(__uint_as_float(box->largest));
  unsigned beyond = 0;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < n; i += int64_t{gridDim.x} * kThreads) {
    const float x = to_float(a[i]), y = to_float(b[i]);
    if (__float_as_uint(x) == __float_as_uint(y)) {
      beyond += isnan(x) ? 1 : 0;  // not equal even to itself
      continue;
    }
    const double wide = y;
    const bool within = isfinite(x) && isfinite(y) && fabs(x - wide) <= fixed + allowed.relative * fabs(wide);
    beyond += within ? 0 : 1;
  }
  beyond = __reduce_add_sync(kAllLanes, beyond);
  if (threadIdx.x % 32 == 0 && beyond != 0) atomicAdd(&box->count, static_cast<unsigned long long>(beyond));
}

struct HoldBox {
  volatile int go;
  int held;
  long long cycles;
  long long ns;
};

__device__ inline long long global_ns() {
  long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void hold_until_told(HoldBox* box, long long limit_ns) {
  const long long start_ns = global_ns(), start_cycles = clock64();
  int go = 0;
  while ((go = box->go) == 0 && global_ns() - start_ns < limit_ns) {
  }
  box->cycles = clock64() - start_cycles;
  box->ns = global_ns() - start_ns;
  box->held = go;
  __threadfence_system();
}

// Bypasses the L1 caches, which kernels do not share.
__global__ void read_again(const uint4* data, size_t count, int passes, unsigned* out) {
  uint4 sum{0, 0, 0, 0};
  const size_t threads = size_t{gridDim.x} * kThreads;
  for (int pass = 0; pass < passes; ++pass) {
    size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x;
    for (; i + 3 * threads < count; i += 4 * threads) {
      uint4 loaded[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) loaded[k] = __ldcg(data + i + k * threads);
#pragma unroll
      for (int k = 0; k < 4; ++k)
        sum.x ^= loaded[k].x, sum.y ^= loaded[k].y, sum.z ^= loaded[k].z, sum.w ^= loaded[k].w;
    }
    for (; i < count; i += threads) sum.x ^= __ldcg(data + i).x;
  }
  if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x9e3779b9u) *out = 1;
}

// The value depends on the pass, so that the compiler cannot remove a pass.
__global__ void write_again(uint4* data, size_t count, int passes) {
  const size_t threads = size_t{gridDim.x} * kThreads;
  for (int pass = 0; pass < passes; ++pass)
    for (size_t i = blockIdx.x * size_t{kThreads} + threadIdx.x; i < count; i += threads)
      __stcg(data + i, uint4{1, 1, 1, static_cast<unsigned>(pass)});
}

template <class T>
T* pinned(size_t count) {
  void* address = nullptr;
  check(cudaHostAlloc(&address, count * sizeof(T), cudaHostAllocMapped), "Pinning host memory");
  return static_cast<T*>(address);
}

// Memory for one launch over ranges. Allocated once and reused: allocation synchronises with the device, which may be
// held.
struct RangeBox {
  DeviceRange* ranges = pinned<DeviceRange>(kMostRanges);
  DeviceWrite* writes = pinned<DeviceWrite>(kMostRanges);
  uint64_t* results = pinned<uint64_t>(kMostRanges);
  unsigned long long* sums = nullptr;
  cudaEvent_t done = nullptr;
  bool in_use = false;

  RangeBox() {
    check(cudaMalloc(&sums, kMostRanges * sizeof *sums), "Allocating memory");
    check(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), "Making an event");
  }
};

struct Pending final : PendingFingerprints {
  std::vector<std::pair<RangeBox*, size_t>> parts;
  std::vector<uint64_t> sizes;

  ~Pending() override {
    for (auto& [box, count] : parts) {
      cudaEventSynchronize(box->done);
      box->in_use = false;
    }
  }
  std::vector<uint64_t> values() override {
    std::vector<uint64_t> all;
    for (auto& [box, count] : parts) {
      check(cudaEventSynchronize(box->done), "Work before a fingerprint");
      for (size_t i = 0; i < count; ++i) all.push_back(mixed(box->results[i] + mixed(sizes[all.size()])));
    }
    return all;
  }
};

class Hold final : public StreamHold {
 public:
  Hold(HoldBox* box, cudaEvent_t passed) : box_(box), passed_(passed) {}
  ~Hold() override {
    Hold::release();
    cudaEventSynchronize(passed_);  // the memory is reused by the next hold
  }
  void release() override {
    box_->go = 1;
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  bool held() override {
    check(cudaEventSynchronize(passed_), "Work before this point");
    return box_->held != 0;
  }
  double clock_mhz() override {
    check(cudaEventSynchronize(passed_), "Work before this point");
    constexpr long long kTelling = 5'000;  // the global timer has a resolution of up to a microsecond
    return box_->ns < kTelling ? 0 : 1e3 * static_cast<double>(box_->cycles) / static_cast<double>(box_->ns);
  }

 private:
  HoldBox* box_;
  cudaEvent_t passed_;
};

class Judging final : public DeviceJudging {
 public:
  Judging(int device, cudaStream_t stream) : device_(device), stream_(stream), hold_(pinned<HoldBox>(1)) {
    check(cudaEventCreateWithFlags(&passed_, cudaEventDisableTiming), "Making an event");
    check(cudaDeviceGetAttribute(&l2_bytes_, cudaDevAttrL2CacheSize, device), "Asking for the size of the L2 cache");
    check(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, device), "Asking for multiprocessors");
    for (int i = 0; i < 4; ++i) boxes_.emplace_back();
  }

  std::unique_ptr<SharedDeviceMemory> share_memory(size_t size_bytes) override {
    std::unique_ptr<SharedDeviceMemory> memory = make_shared_memory(device_, size_bytes);
    check(cudaMemsetAsync(memory->address(), 0, memory->size_bytes(), stream_), "Filling memory");
    check(cudaStreamSynchronize(stream_), "Filling memory");
    return memory;
  }
  std::unique_ptr<SharedDeviceMemory> open_memory(int fd, size_t size_bytes) override {
    return open_shared_memory(device_, fd, size_bytes);
  }

  std::unique_ptr<PendingFingerprints> fingerprint(std::span<const DeviceRange> ranges) override {
    auto pending = std::make_unique<Pending>();
    for (const DeviceRange& range : ranges) pending->sizes.push_back(range.size_bytes);
    for_parts(ranges, &RangeBox::ranges, [&](RangeBox& box, size_t count, dim3 grid) {
      check(cudaMemsetAsync(box.sums, 0, count * sizeof *box.sums, stream_), "Clearing fingerprints");
      fingerprint_ranges<<<grid, kThreads, 0, stream_>>>(box.ranges, box.sums);
      check(cudaGetLastError(), "fingerprint_ranges");
      check(cudaMemcpyAsync(box.results, box.sums, count * sizeof *box.sums, cudaMemcpyDeviceToHost, stream_),
            "Reading fingerprints");
      check(cudaEventRecord(box.done, stream_), "Recording an event");
      pending->parts.emplace_back(&box, count);
      return true;
    });
    return pending;
  }

  int64_t count_apart(const View& a, const View& b, const Apart& allowed) override {
    const int64_t n = b.numel();
    if (n == 0) return 0;
    if (apart_ == nullptr) check(cudaMalloc(&apart_, sizeof *apart_), "Allocating memory");
    check(cudaMemsetAsync(apart_, 0, sizeof *apart_, stream_), "Clearing a count");
    const unsigned grid = std::min(blocks_for(n, kThreads), static_cast<unsigned>(processors_) * 8);
    with_float_type(b.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      find_largest<<<grid, kThreads, 0, stream_>>>(static_cast<const T*>(b.data()), n, apart_);
      count_beyond<<<grid, kThreads, 0, stream_>>>(static_cast<const T*>(a.data()), static_cast<const T*>(b.data()), n,
                                                   allowed, apart_);
    });
    check(cudaGetLastError(), "count_beyond");
    ApartBox found{};
    check(cudaMemcpyAsync(&found, apart_, sizeof found, cudaMemcpyDeviceToHost, stream_), "Reading a count");
    check(cudaStreamSynchronize(stream_), "Comparing two tensors");
    return static_cast<int64_t>(found.count);
  }

  void put_together(void* to, const void* set, const Pieces& pieces) override {
    if (pieces.elements == 0) return;
    with_element_of(pieces.element_bytes, [&]<class U>(U) {
      const auto grid = static_cast<unsigned>(std::min<int64_t>(pieces.count(), int64_t{processors_} * 8));
      copy_pieces<<<grid, kThreads, 0, stream_>>>(static_cast<U*>(to), static_cast<const U*>(set), pieces);
    });
    check(cudaGetLastError(), "copy_pieces");
  }

  void mask(std::span<const DeviceRange> ranges, uint64_t key) override {
    std::vector<DeviceWrite> writes;
    for (const DeviceRange& range : ranges) writes.push_back({range.address, range.address, range.size_bytes, 0, true});
    write(writes, key);
  }

  void write(std::span<const DeviceWrite> writes, uint64_t key) override {
    for_parts(writes, &RangeBox::writes, [&](RangeBox& box, size_t, dim3 grid) {
      write_ranges<<<grid, kThreads, 0, stream_>>>(box.writes, mixed(key));
      check(cudaGetLastError(), "write_ranges");
      check(cudaEventRecord(box.done, stream_), "Recording an event");
      return false;  // reused once its event has completed
    });
  }

  std::unique_ptr<StreamHold> hold_stream(int64_t limit_ns) override {
    *hold_ = HoldBox{0, 0, 0, 0};
    hold_until_told<<<1, 1, 0, stream_>>>(hold_, limit_ns);
    check(cudaGetLastError(), "hold_until_told");
    check(cudaEventRecord(passed_, stream_), "Recording an event");
    return std::make_unique<Hold>(hold_, passed_);
  }

  void synchronize_all() override { check(cudaDeviceSynchronize(), "Work before this point"); }

  void flush_l2() override {
    // Twice the size of the cache is written and then read, so that the cache has only clean lines and needs no
    // write-back.
    const size_t bytes = std::max(size_t{2} * static_cast<size_t>(l2_bytes_), size_t{64} << 20);
    reserve(bytes);
    check(cudaMemsetAsync(memory_, 1, bytes, stream_), "Filling memory");
    read(bytes, 1);
  }
  void reset_persisting_l2() override { check(cudaCtxResetPersistingL2Cache(), "Resetting the L2 cache"); }
  size_t persisting_l2_bytes() override {
    size_t bytes = 0;
    check(cudaDeviceGetLimit(&bytes, cudaLimitPersistingL2CacheSize), "Asking for the limits of the L2 cache");
    return bytes;
  }

  double read_speed(size_t size_bytes) override {
    return best_speed(size_bytes, [&](size_t size, int passes) { read(size, passes); });
  }
  double write_speed(size_t size_bytes) override {
    return best_speed(size_bytes, [&](size_t size, int passes) {
      write_again<<<static_cast<unsigned>(processors_) * 8, kThreads, 0, stream_>>>(static_cast<uint4*>(memory_),
                                                                                    size / sizeof(uint4), passes);
      check(cudaGetLastError(), "write_again");
    });
  }

  void mark_for_profiler(bool on) override {
    check(cudaDeviceSynchronize(), "Work before this point");
    check(on ? cudaProfilerStart() : cudaProfilerStop(), "Telling the profiler");
  }

 private:
  // The best rate of pass(size, passes), in bytes per second.
  template <class Pass>
  double best_speed(size_t size_bytes, const Pass& pass) {
    const size_t size = std::clamp(std::bit_floor(size_bytes), size_t{1} << 20, size_t{1} << 30);
    double best = 0;
    reserve(size);
    // Many passes per launch, so that the launch overhead does not count.
    const int passes = static_cast<int>(std::max<size_t>(1, (size_t{1} << 30) / size));
    cudaEvent_t start, stop;
    check(cudaEventCreate(&start), "Making an event");
    check(cudaEventCreate(&stop), "Making an event");
    for (int i = 0; i < 5; ++i) {
      check(cudaEventRecord(start, stream_), "Recording an event");
      pass(size, passes);
      check(cudaEventRecord(stop, stream_), "Recording an event");
      check(cudaEventSynchronize(stop), "Measuring the device");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, start, stop), "Reading an event");
      best = std::max(best, static_cast<double>(size) * passes / (ms * 1e-3));
    }
    cudaEventDestroy(start);
    cudaEventDestroy(stop);
    return best;
  }

  // A box that is no longer in use; a new one if all are in use.
  RangeBox& free_box() {
    for (RangeBox& box : boxes_)
      if (!box.in_use && cudaEventQuery(box.done) == cudaSuccess) return box;
    cudaGetLastError();  // "not ready" is not an error
    return boxes_.emplace_back();
  }

  // use(box, count, grid) returns whether the box stays in use.
  template <class Item, class Use>
  void for_parts(std::span<const Item> items, Item* RangeBox::*list, const Use& use) {
    for (size_t first = 0; first < items.size(); first += kMostRanges) {
      const size_t count = std::min(kMostRanges, items.size() - first);
      RangeBox& box = free_box();
      size_t largest = 1;
      for (size_t i = 0; i < count; ++i) {
        (box.*list)[i] = items[first + i];
        largest = std::max(largest, items[first + i].size_bytes);
      }
      constexpr size_t kPerBlock = size_t{64} << 10;
      const size_t wanted = (largest + kPerBlock - 1) / kPerBlock;
      const dim3 grid(static_cast<unsigned>(std::min(wanted, static_cast<size_t>(processors_) * 8)),
                      static_cast<unsigned>(count));
      box.in_use = use(box, count, grid);
    }
  }

  void reserve(size_t bytes) {
    if (size_ >= bytes) return;
    cudaFree(memory_);
    memory_ = nullptr;
    size_ = 0;
    check(cudaMalloc(&memory_, bytes), "Allocating memory");
    size_ = bytes;
    check(cudaMemsetAsync(memory_, 1, bytes, stream_), "Filling memory");
  }
  void read(size_t bytes, int passes) {
    read_again<<<static_cast<unsigned>(processors_) * 8, kThreads, 0, stream_>>>(
        static_cast<const uint4*>(memory_), bytes / sizeof(uint4), passes, static_cast<unsigned*>(memory_));
    check(cudaGetLastError(), "read_again");
  }

  int device_;
  cudaStream_t stream_;
  int l2_bytes_ = 0, processors_ = 0;
  HoldBox* hold_;
  cudaEvent_t passed_ = nullptr;
  std::deque<RangeBox> boxes_;  // never moved: pending work points to them
  ApartBox* apart_ = nullptr;
  void* memory_ = nullptr;
  size_t size_ = 0;
};

}  // namespace

std::unique_ptr<DeviceJudging> make_judging(int device, void* stream) {
  return std::make_unique<Judging>(device, static_cast<cudaStream_t>(stream));
}

}  // namespace fk::cuda
