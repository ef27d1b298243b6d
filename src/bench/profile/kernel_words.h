// Explains in sentences what limits a GPU kernel, from the metrics of Nsight Compute.
#pragma once

#include <string>
#include <vector>

#include "bench/profile/ncu_csv.h"

namespace fk {

// The kernels of one call, the longest first. Each gets a line with its numbers, then one sentence per finding, most
// important first; metrics that were not measured are left out.
std::vector<std::string> describe_kernel(const ProfiledKernel& kernel);

// The function alone, without namespaces, template arguments and parameters.
std::string short_name(const ProfiledKernel& kernel);

// The same numbers for a table: names and texts ("-" if not measured).
struct KernelNumber {
  std::string name;
  std::string text;
};
std::vector<KernelNumber> kernel_numbers(const ProfiledKernel& kernel);

}  // namespace fk
