#include "backend/cpu/quantised/vnni_kernels.x86.h"

#include <vector>

namespace fk {
namespace {

std::vector<VnniFormat>& all_vnni_formats() {
  static std::vector<VnniFormat> formats;
  return formats;
}

}  // namespace

RegisterVnniFormat::RegisterVnniFormat(const VnniFormat& format) { all_vnni_formats().push_back(format); }

const VnniFormat* find_vnni_format(std::string_view name) {
  for (const VnniFormat& format : all_vnni_formats())
    if (format.name == name) return &format;
  return nullptr;
}

}  // namespace fk
