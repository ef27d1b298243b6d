#include "sandbox/device_walls.h"

#include <fmt/ranges.h>

#include <map>
#include <optional>

#include "core/device_runtime.h"
#include "core/error.h"
#include "core/memory.h"
#include "sandbox/runner_process.h"

namespace fk {
namespace {

// Empty if a runner with these protections can share memory with us; otherwise the reason.
std::string try_walls(Device device, Walls walls) {
  constexpr int64_t kElements = 4096;
  constexpr uint8_t kPattern = 0x5A;
  SharedTensors shared({{"a trial", {{kElements}, DType::kU8}}}, Access::kWritable, device);
  RunnerOptions options;
  options.device = device;
  options.walls = walls;
  options.timeout_ns = 15'000'000'000;  // for a driver that waits for something it cannot access
  RunnerProcess runner(options);
  int segment = runner.map(shared);
  runner.touch({segment, 0}, kPattern);
  if (runner.failure()) return runner.failure()->sentence;
  Tensor seen(shared.view(0).spec());
  copy_between(shared.view(0), seen);
  for (int64_t i = 0; i < kElements; ++i)
    if (seen.ptr<uint8_t>()[i] != kPattern) return "Data that a runner wrote to shared memory did not arrive.";
  return {};
}

struct Outcome {
  std::optional<Walls> walls;
  std::vector<std::string> failed;
};
std::map<int, Outcome>& outcomes() {
  static std::map<int, Outcome> known;
  return known;
}

}  // namespace

std::vector<std::string> failed_walls(Device device) {
  usable_walls(device);
  return outcomes()[device.index].failed;
}

Walls usable_walls(Device device) {
  if (device == kCpu) return Walls::kAll;
  Outcome& outcome = outcomes()[device.index];
  if (outcome.walls) return *outcome.walls;
  outcome.failed.clear();
  for (int level = 0; level < kWalls; ++level) {
    auto walls = static_cast<Walls>(level);
    std::string why = try_walls(device, walls);
    if (why.empty()) return *(outcome.walls = walls);
    outcome.failed.push_back(std::move(why));
  }
  throw Error("No runner process can use {}, with or without a sandbox: {}", device_name(device),
              fmt::join(outcome.failed, " "));
}

}  // namespace fk
