#include "measure/device_probe.h"

#include "core/json.h"

namespace fk {

MachineProbe probe_device(DeviceRuntime& runtime) {
  DeviceSpeeds speeds = runtime.measure();
  MachineProbe probe;
  probe.threads = runtime.facts().multiprocessors;
  probe.read_gbps = {speeds.read_gbps, speeds.read_gbps, "16-byte loads over several GiB"};
  probe.bf16_tflops = {speeds.bf16_tflops, speeds.bf16_tflops, "a product of 8192 x 8192 matrices"};
  probe.f32_tflops = {speeds.f32_tflops, speeds.f32_tflops, "multiply-adds in registers"};
  return probe;
}

Json to_json(const DeviceFacts& facts) {
  return {{"name", facts.name},
          {"architecture", facts.architecture},
          {"driver", facts.driver},
          {"library", facts.library},
          {"multiprocessors", facts.multiprocessors},
          {"memory_bytes", facts.memory_bytes},
          {"l2_bytes", facts.l2_bytes},
          {"clock_mhz", facts.clock_mhz}};
}

Json to_json(const DeviceSpeeds& speeds) {
  return {{"read_gbps", speeds.read_gbps},
          {"write_gbps", speeds.write_gbps},
          {"copy_gbps", speeds.copy_gbps},
          {"bf16_tflops", speeds.bf16_tflops},
          {"f32_tflops", speeds.f32_tflops},
          {"launch_us", speeds.launch_us},
          {"recorded_launch_us", speeds.recorded_launch_us}};
}

}  // namespace fk
