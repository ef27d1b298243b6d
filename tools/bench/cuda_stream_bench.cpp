// Products of few rows on CUDA: the bandwidth of the weights with our kernel and with cuBLASLt.
//
// Each line is a chain of products over different matrices, recorded and replayed as in a decode step, so that the
// times include effects of one kernel on the next.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "backend/cuda/matmul/cublaslt.h"
#include "backend/cuda/matmul/matmul.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "core/memory.h"

namespace {

using namespace fk;
using namespace fk::cuda;

struct Line {
  const char* name;
  int64_t out_features, in_features;
  StreamEpilogue epilogue;
};

constexpr Line kLines[] = {
    {"llama-8b qkv", 6144, 4096, StreamEpilogue::kPlain},
    {"llama-8b o", 4096, 4096, StreamEpilogue::kPlain},
    {"llama-8b gate_up", 28672, 4096, StreamEpilogue::kSiluAndMul},
    {"llama-8b down", 4096, 14336, StreamEpilogue::kPlain},
    {"llama-8b head", 128256, 4096, StreamEpilogue::kPlain},
    {"qwen3-4b qkv", 6144, 2560, StreamEpilogue::kPlain},
    {"qwen3-4b o", 2560, 4096, StreamEpilogue::kPlain},
    {"qwen3-4b gate_up", 19456, 2560, StreamEpilogue::kSiluAndMul},
    {"qwen3-4b down", 2560, 9728, StreamEpilogue::kPlain},
    {"gemma3-4b qkv", 4096, 2560, StreamEpilogue::kPlain},
    {"gemma3-4b o", 2560, 2048, StreamEpilogue::kPlain},
    {"gemma3-4b gate_up", 20480, 2560, StreamEpilogue::kGeluTanhAndMul},
    {"gemma3-4b down", 2560, 10240, StreamEpilogue::kPlain},
};

double replay_us(DeviceRuntime& runtime, int launches, const std::function<void(int)>& launch_one) {
  for (int i = 0; i < launches; ++i) launch_one(i);
  runtime.synchronize();
  runtime.begin_recording();
  for (int i = 0; i < launches; ++i) launch_one(i);
  std::unique_ptr<RecordedWork> work = runtime.end_recording();
  std::unique_ptr<DeviceEvent> start = runtime.make_event(), stop = runtime.make_event();
  double best = 1e30;
  for (int repeat = 0; repeat < 8; ++repeat) {
    start->record();
    work->launch();
    stop->record();
    best = std::min(best, stop->elapsed_ms_since(*start));
  }
  return best * 1e3 / launches;
}

void run(DeviceRuntime& runtime, const Line& line, int64_t tokens) {
  Device device = runtime.device();
  double bytes = 2.0 * static_cast<double>(line.out_features * line.in_features);
  // Enough matrices that none is still in the L2 cache when it is used again.
  int copies = static_cast<int>(std::clamp(1.5e9 / bytes, 2.0, 64.0));
  Tensor weights({copies, line.out_features, line.in_features}, DType::kBF16, device);
  Tensor x({tokens, std::max(line.in_features, line.out_features)}, DType::kBF16, device);
  Tensor out({tokens, line.out_features}, DType::kBF16, device);
  runtime.fill_dummy(weights, 1, 0, 0.02f, 0);
  runtime.fill_dummy(x, 2, 0, 1, 0);
  int64_t columns = line.epilogue == StreamEpilogue::kPlain ? line.out_features : line.out_features / 2;
  MatmulProblem problem{.rows = tokens,
                        .out_features = line.out_features,
                        .in_features = line.in_features,
                        .x_stride = line.in_features,
                        .out_stride = columns};
  auto operands = [&](int i) {
    return MatmulOperands{.x = x.view().data(), .weight = weights.view().select(0, i).data(), .out = out.view().data()};
  };
  double ours = replay_us(runtime, copies,
                          [&](int i) { multiply_streamed(problem, operands(i), line.epilogue, runtime.stream()); });
  problem.out_stride = line.out_features;
  CublasLtMatmul library(problem);
  double theirs = replay_us(runtime, copies, [&](int i) { library.run(operands(i), runtime.stream()); });
  fmt::print("{:<18}{:>4}{:>10.2f}{:>8.2f}{:>12.2f}{:>8.2f}\n", line.name, tokens, ours, bytes / ours * 1e-6, theirs,
             bytes / theirs * 1e-6);
}

}  // namespace

int main() try {
  DeviceRuntime& runtime = device_runtime({DeviceKind::kCuda, 0});
  fmt::print("{:<18}{:>4}{:>10}{:>8}{:>12}{:>8}\n", "product", "rows", "ours us", "TB/s", "cuBLASLt us", "TB/s");
  for (int64_t tokens : {1, 4, 8, 16})
    for (const Line& line : kLines)
      if (tokens == 1 || line.out_features < 100000) run(runtime, line, tokens);
  return 0;
} catch (const Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
