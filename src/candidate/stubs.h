// Stubs: candidates to start from, one per operator, with a body that is correct and slow. The bodies are the files of
// src/candidate/stubs/, found by the operator's name and the device: rms_norm.cpp.in, rms_norm.cu.in. An operator
// without a file there gets a CPU stub that calls its reference.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/registry.h"

namespace fk {

// The text of an operator's stub, ready to compile; nothing where there is no body for it on this device.
std::optional<std::string> stub_text(const OperatorInfo& op, DeviceKind device = DeviceKind::kCpu);

struct WrittenStub {
  const OperatorInfo* op = nullptr;
  std::string path;
  bool unchanged = false;     // the same file was there already
  std::string moved_to = {};  // new name of a file that was there before; empty: none
};

// Writes the stubs of operators that have one under folder/L{level}/. Existing files are renamed, never overwritten.
std::vector<WrittenStub> write_stubs(const std::vector<const OperatorInfo*>& ops, const std::string& folder,
                                     DeviceKind device = DeviceKind::kCpu);

}  // namespace fk
