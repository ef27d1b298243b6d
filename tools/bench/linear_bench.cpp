// Times `linear` in bf16 and `gguf_linear` on this CPU at the shapes of llama-3.2-1b, next to the read bandwidth:
// linear_bench [threads] [bf16|q8_0|q4_0|q4_k|q6_k|all] [memory|cache|FILE] [m n k]...
//
// memory: weights rotate over more memory than the caches hold, in huge pages, as they do in a model; cache: one matrix
// again and again; FILE: they rotate over a file mapped for reading, whatever is in it. The median and the fastest of
// many short calls are reported.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/cpu_features.h"
#include "core/memory.h"
#include "measure/machine_probe.h"
#include "measure/timer.h"
#include "ops/formats/weight_format.h"
#include "ops/l1/gguf_linear.h"
#include "ops/materialize.h"

namespace {

using namespace fk;

struct Size {
  int64_t m, n, k;
};

constexpr size_t kWeightBytes = size_t{600} << 20;
constexpr double kSecondsPerLine = 0.6;
constexpr const char* kBf16 = "bf16";

struct Weights {
  std::byte* data;
  size_t size;
  bool rotates;
};

Weights mapped(const std::string& path) {
  int file = ::open(path.c_str(), O_RDONLY);
  struct stat info {};
  if (file < 0 || fstat(file, &info) != 0) {
    fmt::print(stderr, "linear_bench: cannot open {}\n", path);
    std::exit(1);
  }
  auto size = static_cast<size_t>(info.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, file, 0);
  ::close(file);
  return {static_cast<std::byte*>(data), data == MAP_FAILED ? 0 : size, true};
}

// Blocks of random numbers, the same few again and again.
void fill_with(const std::string& format, const Buffer& weights) {
  size_t drawn = 0;
  if (format == kBf16) {
    for (drawn = 0; drawn < 4096; drawn += 2) {
      auto bits = static_cast<uint16_t>(0x3c00 + drawn % 254);
      std::memcpy(weights.data() + drawn, &bits, sizeof bits);
    }
  } else {
    const WeightFormat& of = weight_format(format);
    std::vector<float> values(static_cast<size_t>(of.block_elements));
    for (int64_t block = 0; block < 64; ++block, drawn += static_cast<size_t>(of.block_bytes)) {
      for (float& v : values) v = static_cast<float>(std::rand() % 2001 - 1000) * 1e-3f;  // NOLINT: any numbers do
      of.quantise(values.data(), weights.data() + drawn);
    }
  }
  for (size_t at = drawn; at < weights.size(); at += drawn)
    std::memcpy(weights.data() + at, weights.data(), std::min(drawn, weights.size() - at));
}

void measure(const std::string& format, Size s, const Weights& weights, double read_gbps, ThreadPool& pool) {
  const OperatorInfo& info = Registry::instance().at(format == kBf16 ? "linear" : "gguf_linear");
  Fields init = info.default_init();
  for (Field& f : init) {
    if (f.name == "in_features") f.value = s.k;
    if (f.name == "out_features") f.value = s.n;
    if (f.name == "weight_format") f.value = format;
  }
  TensorSpec spec = info.build(init, {})->own_params().at(0).spec;
  size_t bytes = spec.size_bytes(), count = weights.rotates ? std::max(weights.size / bytes, size_t{1}) : 1;
  std::vector<std::unique_ptr<Node>> nodes;  // one for each matrix: implementations may keep something of their own
  for (size_t i = 0; i < count; ++i) {
    nodes.push_back(info.build(init, {}));
    nodes.back()->bind([&](const std::string&) { return View(weights.data + i * bytes, spec, kCpu); });
  }
  Tensor x({s.m, s.k}, DType::kBF16);
  for (int64_t i = 0; i < s.m * s.k; ++i) x.ptr<bf16>()[i].bits = static_cast<uint16_t>(0x3c00 + i * 37 % 254);
  std::vector<OptView> args{x.view()};
  Tensor out(*nodes[0]->outputs(args).specs[0]);
  args.push_back(out.view());
  Arena arena;
  Context ctx{.pool = pool, .arena = arena, .attention = nullptr, .states = {}};
  std::vector<double> times;
  for (auto& node : nodes) node->call(ctx, args);
  Stopwatch all;
  for (size_t i = 0; all.elapsed_s() < kSecondsPerLine; i = (i + 1) % count) {
    arena.reset();
    Stopwatch one;
    nodes[i]->call(ctx, args);
    times.push_back(one.elapsed_s());
  }
  std::sort(times.begin(), times.end());
  double median = times[times.size() / 2], gb = static_cast<double>(bytes) * 1e-9,
         gmac = static_cast<double>(s.m * s.n) * static_cast<double>(s.k) * 1e-9;
  fmt::print(
      "{:<5} m={:<4} n={:<6} k={:<5} median {:8.3f} ms, fastest {:8.3f}; {:5.1f} GB/s {:3.0f} % of read, {:5.1f} G "
      "multiply-adds/s\n",
      format, s.m, s.n, s.k, median * 1e3, times[0] * 1e3, gb / median, 100 * gb / median / read_gbps, gmac / median);
}

}  // namespace

int main(int argc, char** argv) {
  cpu_features();
  ThreadPool pool(argc > 1 ? std::max(1, std::atoi(argv[1])) : usable_cores());
  std::string wanted = argc > 2 ? argv[2] : "all", where = argc > 3 ? argv[3] : "memory";
  std::vector<Size> sizes;
  for (int i = 4; i + 2 < argc; i += 3)
    sizes.push_back({std::atoll(argv[i]), std::atoll(argv[i + 1]), std::atoll(argv[i + 2])});
  if (sizes.empty())
    sizes = {{1, 2048, 2048},   {1, 16384, 2048},   {1, 2048, 8192},  {1, 128256, 2048},
             {128, 2048, 2048}, {256, 16384, 2048}, {256, 2048, 8192}};
  Buffer memory(where == "cache" || where == "memory" ? kWeightBytes : size_t{256} << 20);
  std::memset(memory.data(), 1, memory.size());
  ProbeOptions options;
  options.memory = {memory.data(), memory.size()};
  double read_gbps = probe_machine(pool, options).read_gbps.best;
  fmt::print("{} threads, {:.1f} GB/s read\n", pool.threads(), read_gbps);
  Weights weights{memory.data(), memory.size(), where == "memory"};
  if (where != "memory" && where != "cache") weights = mapped(where);
  for (const char* format : {kBf16, "q8_0", "q4_0", "q4_k", "q6_k"}) {
    if (wanted != "all" && wanted != format) continue;
    if (weights.data == memory.data()) fill_with(format, memory);
    for (Size size : sizes) measure(format, size, weights, read_gbps, pool);
  }
}
