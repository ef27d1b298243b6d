// The paths `hf` and `torch_compile` of a suite: PyTorch in a Python of the user's.
#pragma once

#include <string>

#include "cli/suite_row.h"
#include "cli/watched_process.h"

namespace fk {

// Why a row of PyTorch cannot be made for this model: an encoder, a GGUF file, a quantised model. Empty: it can.
std::string peer_refusal(const SuiteConfig& config);

// The script's exit code where Python lacks PyTorch or transformers.
inline constexpr int kPeerNotInstalled = 3;

// Writes the script and its request into the folder; the process that runs them.
WatchedProcess peer_process(const SuiteRow& row, const SuiteSetting& setting, const std::string& folder);

}  // namespace fk
