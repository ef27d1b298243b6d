#include "candidate/runner/device_walls.h"

#include <cstring>
#include <map>

#include "candidate/runner/runner_process.h"
#include "core/device_runtime.h"
#include "core/error.h"
#include "core/memory.h"

namespace fk {
namespace {

// Empty where a runner behind these walls shares memory with us, else why not.
std::string try_walls(Device device, Walls walls) {
  constexpr int64_t kElements = 4096;
  constexpr uint8_t kPattern = 0x5A;
  SharedTensors shared({{"a trial", {{kElements}, DType::kU8}}}, Access::kWritable, device);
  RunnerOptions options;
  options.device = device;
  options.walls = walls;
  RunnerProcess runner(options);
  int segment = runner.map(shared);
  runner.touch({segment, 0}, kPattern);
  if (runner.failure()) return runner.failure()->sentence;
  Tensor seen(shared.view(0).spec());
  copy_between(shared.view(0), seen);
  for (int64_t i = 0; i < kElements; ++i)
    if (seen.ptr<uint8_t>()[i] != kPattern) return "What a runner wrote did not arrive.";
  return {};
}

}  // namespace

Walls usable_walls(Device device) {
  if (device == kCpu) return Walls::kAll;
  static std::map<int, Walls> known;
  if (auto found = known.find(device.index); found != known.end()) return found->second;
  std::string why;
  for (int level = 0; level < kWalls; ++level) {
    auto walls = static_cast<Walls>(level);
    why = try_walls(device, walls);
    if (why.empty()) return known[device.index] = walls;
  }
  throw Error("No runner process can use {}, with or without walls around it: {}", device_name(device), why);
}

}  // namespace fk
