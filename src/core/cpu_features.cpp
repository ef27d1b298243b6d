#include "core/cpu_features.h"

#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace fk {
namespace {

#if defined(__x86_64__)

// Linux enables the 8 KiB of tile state only on request, once per process; threads started later inherit it.
bool request_amx() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

CpuFeatures detect() {
  CpuFeatures f;
  __builtin_cpu_init();
  // Clang 14, which lints this file, has no names for some of them.
  unsigned a = 0, b = 0, c = 0, d = 0;
  bool has_f16c = __get_cpuid(1, &a, &b, &c, &d) && ((c >> 29) & 1);
  f.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c;
  f.avx512 = f.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  f.avx512_bf16 = f.avx512 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && ((a >> 5) & 1);
  f.avx512_vnni = f.avx512 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && ((c >> 11) & 1);
  bool has_amx = __get_cpuid_count(7, 0, &a, &b, &c, &d) && ((d >> 24) & 1) && ((d >> 22) & 1);  // tiles, bf16
  f.amx_bf16 = f.avx512_bf16 && has_amx && request_amx();
  return f;
}

#elif defined(__aarch64__)

CpuFeatures detect() {
  CpuFeatures f;
  f.neon = true;
  f.neon_dot = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  f.neon_bf16 = (getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0;
  f.neon_i8mm = f.neon_dot && (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0;
  return f;
}

#else
CpuFeatures detect() { return {}; }
#endif

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

std::vector<std::string> cpu_feature_names() {
  const CpuFeatures& f = cpu_features();
  std::vector<std::string> names;
  auto add = [&](bool present, const char* name) {
    if (present) names.emplace_back(name);
  };
  add(f.avx2, "avx2");
  add(f.avx512, "avx512");
  add(f.avx512_bf16, "avx512_bf16");
  add(f.avx512_vnni, "avx512_vnni");
  add(f.amx_bf16, "amx_bf16");
  add(f.neon, "neon");
  add(f.neon_dot, "neon_dot");
  add(f.neon_bf16, "neon_bf16");
  add(f.neon_i8mm, "neon_i8mm");
  return names;
}

}  // namespace fk
