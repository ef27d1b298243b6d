#include "sandbox/loaded_memory.h"

#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

namespace fk {
namespace {

// Segment by segment: between the segments of the program there may be free addresses, which other mappings may get.
// Not from /proc/self/maps, where an object's zeroed data may be merged with the memory of malloc after it.
int add_object(dl_phdr_info* object, size_t, void* list) {
  auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    uint64_t at = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD)
      static_cast<std::vector<AddressRange>*>(list)->push_back(
          {at / page * page, (at + segment.p_memsz + page - 1) / page * page});
  }
  return 0;
}

}  // namespace

std::vector<AddressRange> loaded_memory() {
  std::vector<AddressRange> ranges;
  dl_iterate_phdr(add_object, &ranges);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    bool known = line.find("[stack]") != std::string::npos || line.find("[vdso]") != std::string::npos ||
                 line.find("[vvar") != std::string::npos;
    // The loader reserves the gaps between the segments of a library without access; including them makes one range.
    known = known || (line.find("---p") != std::string::npos && line.find('/') != std::string::npos);
    if (known && sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2) ranges.push_back({begin, end});
  }
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  std::vector<AddressRange> merged;
  for (const AddressRange& range : ranges) {
    if (!merged.empty() && range.begin <= merged.back().end)
      merged.back().end = std::max(merged.back().end, range.end);
    else
      merged.push_back(range);
  }
  return merged;
}

}  // namespace fk
