// Times the matrix products of this CPU next to its measured limits: matmul_bench [threads] [name] [m n k]...
//
// Weights rotate over more memory than the caches hold, as they do in a model. The fastest of many short calls is
// reported, so that noise of the machine does not matter.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "backend/cpu/matmul/matmul.h"
#include "core/cpu_features.h"
#include "core/memory.h"
#include "measure/machine_probe.h"
#include "measure/timer.h"

namespace {

using namespace fk;

struct Product {
  const char* name;
  DType dtype;
  bool present;
  void (*run)(const MatmulArgs&, ThreadPool&);
};

std::vector<Product> products() {
  const CpuFeatures& cpu = cpu_features();
  return {
#if defined(__x86_64__)
    {"amx_bf16", DType::kBF16, cpu.amx_bf16, matmul_amx_bf16}, {"amx_f32", DType::kF32, cpu.amx_bf16, matmul_amx_f32},
        {"avx512_bf16", DType::kBF16, cpu.avx512_bf16, matmul_avx512_bf16},
        {"avx512_f32", DType::kF32, cpu.avx512, matmul_avx512_f32},
        {"avx2_bf16", DType::kBF16, cpu.avx2, matmul_avx2_bf16}, {"avx2_f32", DType::kF32, cpu.avx2, matmul_avx2_f32},
#elif defined(__aarch64__)
    {"neon_bf16", DType::kBF16, cpu.neon_bf16, matmul_neon_bf16}, {"neon_f32", DType::kF32, cpu.neon, matmul_neon_f32},
#endif
        {"portable_bf16", DType::kBF16, true, matmul_portable}, {"portable_f32", DType::kF32, true, matmul_portable},
  };
}

struct Size {
  int64_t m, n, k;
};

constexpr size_t kWeightBytes = size_t{1200} << 20;
constexpr double kSecondsPerLine = 0.6;

double quickest_s(const Product& product, Size s, ThreadPool& pool, const Buffer& weights) {
  Buffer x(static_cast<size_t>(s.m * s.k) * 4), y(static_cast<size_t>(s.m * s.n) * 4);
  size_t bytes = static_cast<size_t>(s.n * s.k) * dtype_size(product.dtype);
  double best = std::numeric_limits<double>::infinity();
  size_t at = 0;
  for (Stopwatch all; all.elapsed_s() < kSecondsPerLine;) {
    if (at + bytes > weights.size()) at = 0;
    Stopwatch one;
    product.run(
        {s.m, s.n, s.k, x.data(), s.k, weights.data() + at, s.k, nullptr, y.data(), s.n, product.dtype, product.dtype},
        pool);
    best = std::min(best, one.elapsed_s());
    at += bytes;
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  cpu_features();
  ThreadPool pool(argc > 1 ? std::max(1, std::atoi(argv[1])) : usable_cores());
  std::string wanted = argc > 2 ? argv[2] : "";
  std::vector<Size> sizes;
  for (int i = 3; i + 2 < argc; i += 3)
    sizes.push_back({std::atoll(argv[i]), std::atoll(argv[i + 1]), std::atoll(argv[i + 2])});
  if (sizes.empty())
    sizes = {{1, 32768, 2048},  {4, 32768, 2048},  {8, 32768, 2048},   {16, 16384, 2048}, {64, 16384, 2048},
             {512, 3072, 2048}, {512, 2048, 2048}, {512, 16384, 2048}, {512, 2048, 8192}};

  Buffer weights(kWeightBytes);
  for (size_t i = 0; i < weights.size(); i += 2) weights.data()[i + 1] = std::byte{0x3c};
  ProbeOptions options;
  options.memory = {weights.data(), weights.size()};
  MachineProbe limit = probe_machine(pool, options);
  fmt::print("{} threads; limits: read {:.1f} GB/s, bf16 {:.2f} TFLOP/s, f32 {:.2f} TFLOP/s\n", pool.threads(),
             limit.read_gbps.best, limit.bf16_tflops.best, limit.f32_tflops.best);
  for (const Product& product : products()) {
    if (!product.present || (!wanted.empty() && wanted != product.name)) continue;
    if (wanted.empty() && std::strncmp(product.name, "portable", 8) == 0) continue;
    for (Size s : sizes) {
      double time_s = quickest_s(product, s, pool, weights);
      double gbps = static_cast<double>(s.n * s.k) * static_cast<double>(dtype_size(product.dtype)) / time_s * 1e-9;
      double tflops = 2.0 * static_cast<double>(s.m * s.n) * static_cast<double>(s.k) / time_s * 1e-12;
      double peak = product.dtype == DType::kBF16 ? limit.bf16_tflops.best : limit.f32_tflops.best;
      fmt::print(
          "{:<14} m={:<4} n={:<6} k={:<5} {:8.3f} ms {:6.1f} GB/s {:3.0f} % of read {:6.2f} TFLOP/s {:3.0f} % of "
          "peak\n",
          product.name, s.m, s.n, s.k, time_s * 1e3, gbps, 100 * gbps / limit.read_gbps.best, tflops,
          100 * tflops / peak);
    }
  }
}
