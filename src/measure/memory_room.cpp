#include "measure/memory_room.h"

#include "core/device_runtime.h"
#include "core/error.h"
#include "measure/machine_limits.h"

namespace fk {

void require_memory(double needed_bytes, Device device, std::string_view what, std::string_view advice) {
  auto free_bytes = device == kCpu ? static_cast<double>(memory_info().available_bytes)
                                   : static_cast<double>(device_runtime(device).free_bytes());
  bool unknown = device == kCpu && free_bytes == 0;
  if (unknown || needed_bytes <= free_bytes) return;
  throw Error("{} take {:.1f} GiB and {} has {:.1f} GiB of memory free; {}.", what, needed_bytes * 0x1p-30,
              device == kCpu ? "this machine" : device_name(device), free_bytes * 0x1p-30, advice);
}

}  // namespace fk
