#include "bench/profile/ncu_csv.h"

#include <algorithm>
#include <charconv>

#include "core/error.h"

namespace fk {
namespace {

// One of that unit in base units; 1 for percentages and counts.
double unit_factor(std::string_view unit) {
  static const std::map<std::string, double, std::less<>> kFactors = {
      {"nsecond", 1e-9}, {"ns", 1e-9},   {"usecond", 1e-6}, {"us", 1e-6},   {"msecond", 1e-3},
      {"ms", 1e-3},      {"Kbyte", 1e3}, {"Mbyte", 1e6},    {"Gbyte", 1e9}, {"Tbyte", 1e12},
      {"hz", 1},         {"Khz", 1e3},   {"Mhz", 1e6},      {"Ghz", 1e9}};
  // Rates: the unit before the slash says the size, the time is a second or a cycle.
  std::string_view first = unit.substr(0, unit.find('/'));
  auto found = kFactors.find(first);
  return found == kFactors.end() ? 1 : found->second;
}

// "1,234.5" or "1234.5"; nothing where it is no number.
std::optional<double> number(std::string text) {
  std::erase(text, ',');
  double value = 0;
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

size_t place_of(const std::vector<std::string>& header, std::string_view name) {
  return static_cast<size_t>(std::find(header.begin(), header.end(), name) - header.begin());
}

}  // namespace

std::optional<double> ProfiledKernel::metric(std::string_view wanted) const {
  auto found = metrics.find(wanted);
  return found == metrics.end() ? std::nullopt : std::optional(found->second);
}

std::optional<double> ProfiledKernel::largest(std::initializer_list<std::string_view> parts) const {
  std::optional<double> most;
  for (const auto& metric : metrics) {
    bool fits = std::all_of(parts.begin(), parts.end(),
                            [&](std::string_view part) { return metric.first.find(part) != std::string::npos; });
    if (fits && (!most || metric.second > *most)) most = metric.second;
  }
  return most;
}

std::vector<std::string> csv_record(std::string_view text, size_t& at) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (; at < text.size(); ++at) {
    char c = text[at];
    if (quoted && c == '"' && at + 1 < text.size() && text[at + 1] == '"') {
      fields.back() += '"';
      ++at;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c == '\n' && !quoted) {
      ++at;
      break;
    } else if (c != '\r' || quoted) {
      fields.back() += c;
    }
  }
  return fields;
}

std::vector<ProfiledKernel> parse_ncu_csv(std::string_view text) {
  std::vector<std::string> header;
  size_t at = 0;
  while (at < text.size()) {
    header = csv_record(text, at);
    if (header.size() > 3 && place_of(header, "Kernel Name") < header.size()) break;
    header.clear();
  }
  if (header.empty()) throw Error("Nsight Compute printed no table; its messages are in the log beside the report.");
  std::vector<std::string> units = csv_record(text, at);
  size_t name = place_of(header, "Kernel Name");
  std::vector<ProfiledKernel> kernels;
  while (at < text.size()) {
    std::vector<std::string> row = csv_record(text, at);
    if (row.size() != header.size()) continue;  // an empty line, or a message of ncu at the end
    ProfiledKernel kernel;
    kernel.name = row[name];
    for (size_t i = 0; i < row.size(); ++i)
      if (std::optional<double> value = number(row[i]))
        kernel.metrics[header[i]] = *value * (i < units.size() ? unit_factor(units[i]) : 1);
    kernels.push_back(std::move(kernel));
  }
  if (kernels.empty()) throw Error("Nsight Compute saw no kernel; the operator launched none in the profiled call.");
  return kernels;
}

}  // namespace fk
