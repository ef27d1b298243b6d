// The hypervisor's signature, if cpuid reports one.
#include <cpuid.h>

#include <cstring>
#include <string_view>
#include <utility>

#include "measure/machine_cpu.h"

namespace fk {

std::string hypervisor_name() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !((c >> 31) & 1)) return "";
  __cpuid(0x40000000, a, b, c, d);
  char signature[13] = {};
  std::memcpy(signature, &b, 4);
  std::memcpy(signature + 4, &c, 4);
  std::memcpy(signature + 8, &d, 4);
  constexpr std::pair<std::string_view, const char*> kKnown[] = {
      {"KVMKVMKVM", "KVM"},     {"Microsoft Hv", "Hyper-V"},    {"VMwareVMware", "VMware"},
      {"XenVMMXenVMM", "Xen"},  {"TCGTCGTCGTCG", "QEMU"},       {"bhyve bhyve ", "bhyve"},
      {"ACRNACRNACRN", "ACRN"}, {"VBoxVBoxVBox", "VirtualBox"}, {"AppleVirt", "Apple"}};
  for (const auto& [known, name] : kKnown)
    if (known == signature) return name;
  return signature[0] ? signature : "unknown";
}

}  // namespace fk
