// Aarch64 has no instruction that returns the hypervisor's name; the firmware's product name often contains it.
#include "measure/machine_cpu.h"
#include "measure/small_file.h"

namespace fk {

std::string hypervisor_name() {
  std::string vendor = small_file("/sys/class/dmi/id/sys_vendor").value_or("");
  if (vendor == "QEMU") return "KVM or QEMU";
  if (vendor == "Amazon EC2" || vendor == "Google" || vendor == "Microsoft Corporation") return vendor;
  return small_file("/sys/hypervisor/type").value_or("");
}

}  // namespace fk
