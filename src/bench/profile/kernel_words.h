// What limits a GPU kernel, in sentences, from what Nsight Compute measured of it.
#pragma once

#include <string>
#include <vector>

#include "bench/profile/ncu_csv.h"

namespace fk {

// The kernels of one call, the longest first. Each gets a line with its numbers, then one sentence per finding, most
// important first; nothing is said of what was not measured.
std::vector<std::string> describe_kernel(const ProfiledKernel& kernel);

// The function alone, without namespaces, template arguments and parameters.
std::string short_name(const ProfiledKernel& kernel);

// The same numbers for a table: what they are called, and their texts ("-" where not measured).
struct KernelNumber {
  std::string name;
  std::string text;
};
std::vector<KernelNumber> kernel_numbers(const ProfiledKernel& kernel);

}  // namespace fk
