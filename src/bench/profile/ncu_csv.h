// Parses the output of `ncu --csv --page raw`: a row of metric names, a row of their units, then one row per kernel.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

// A kernel that ran, with everything Nsight Compute measured of it. Numbers are in base units: bytes, seconds, percent.
struct ProfiledKernel {
  std::string name;
  std::map<std::string, double, std::less<>> metrics;

  std::optional<double> metric(std::string_view name) const;
  // The largest of the metrics whose names hold all these parts.
  std::optional<double> largest(std::initializer_list<std::string_view> parts) const;
  double seconds() const { return metric("gpu__time_duration.sum").value_or(0); }
};

// Throws Error if the text is not such a table. Lines before its header (messages of ncu) are skipped.
std::vector<ProfiledKernel> parse_ncu_csv(std::string_view text);

// One record of RFC 4180 at `at`, which is moved past it.
std::vector<std::string> csv_record(std::string_view text, size_t& at);

}  // namespace fk
