#include "backend/cpu/quantised/neon_kernels.arm64.h"

#include <vector>

namespace fk {
namespace {

std::vector<NeonFormat>& all_neon_formats() {
  static std::vector<NeonFormat> formats;
  return formats;
}

}  // namespace

RegisterNeonFormat::RegisterNeonFormat(const NeonFormat& format) { all_neon_formats().push_back(format); }

const NeonFormat* find_neon_format(std::string_view name) {
  for (const NeonFormat& format : all_neon_formats())
    if (format.name == name) return &format;
  return nullptr;
}

}  // namespace fk
