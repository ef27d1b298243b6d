// The instruction sets of this CPU, detected once at run time; kernels check them before they use an instruction.
#pragma once

#include <string>
#include <vector>

namespace fk {

struct CpuFeatures {
  // x86-64
  bool avx2 = false;         // with FMA and F16C: every x86-64 CPU since 2013
  bool avx512 = false;       // F, BW, DQ, VL
  bool avx512_bf16 = false;  // VDPBF16PS
  bool avx512_vnni = false;  // VPDPBUSD
  bool amx_bf16 = false;     // TDPBF16PS, and the kernel granted this process the tile registers
  // aarch64
  bool neon = false;
  bool neon_dot = false;   // SDOT
  bool neon_bf16 = false;  // BFDOT, BFMMLA
  bool neon_i8mm = false;  // SMMLA, and SDOT
};

const CpuFeatures& cpu_features();
std::vector<std::string> cpu_feature_names();  // the ones present, for doctor and for result records

}  // namespace fk
