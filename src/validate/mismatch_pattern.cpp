// Every pattern is a function that looks at a sample of the wrong elements and returns a sentence, or an empty string.
// The list at the end is ordered: the patterns that explain most come first.
#include "validate/mismatch_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "measure/statistics.h"

namespace fk {
namespace {

constexpr size_t kStretches = 64, kStretch = 1024;  // runs of consecutive wrong elements: together they are the sample
constexpr double kMost = 0.99;                      // share of the sample that must fit
constexpr size_t kFew = 4, kFewIntegers = 8;        // this many may fit by chance

struct Sample {
  const WrongOutput& output;
  std::vector<int64_t> at;  // flat indexes, ascending
  size_t least = kFew;
  size_t written = 0;  // wrong elements in total, without those that were never written

  double got(int64_t i) const { return load_at(output.got, i); }
  double want(int64_t i) const { return load_at(output.want, i); }
  double allowed(double value) const { return output.bounds.absolute + output.bounds.relative * std::abs(value); }
  bool near(double x, double value) const { return std::abs(x - value) <= allowed(value); }

  static double load_at(const View& v, int64_t i) {
    const auto* bytes = static_cast<const std::byte*>(v.data());
    return load_element(bytes + static_cast<size_t>(i) * dtype_size(v.dtype()), v.dtype());
  }
};

// Whether an element still has the bytes from before the call.
bool unwritten(const WrongOutput& output, size_t i) {
  if (!output.poison) return false;
  size_t size = dtype_size(output.got.dtype());
  const auto* bytes = static_cast<const uint8_t*>(output.got.data()) + i * size;
  return std::all_of(bytes, bytes + size, [&](uint8_t b) { return b == *output.poison; });
}

// A sample of the elements that were written and are wrong.
Sample sample_of(const WrongOutput& output) {
  auto counts = [&](size_t i) { return output.wrong[i] != 0 && !unwritten(output, i); };
  Sample sample{output, {}, dtype_is_float(output.got.dtype()) ? kFew : kFewIntegers};
  for (size_t i = 0; i < output.wrong.size(); ++i) sample.written += counts(i) ? 1 : 0;
  bool all = sample.written <= kStretches * kStretch;
  size_t number = 0;  // index of the element among those that count
  size_t stretch = 0;
  auto first_of = [&](size_t s) { return s * (sample.written - kStretch) / (kStretches - 1); };
  for (size_t i = 0; i < output.wrong.size(); ++i) {
    if (!counts(i)) continue;
    if (!all && stretch < kStretches && number >= first_of(stretch) + kStretch) ++stretch;
    if (all || (stretch < kStretches && number >= first_of(stretch))) sample.at.push_back(static_cast<int64_t>(i));
    ++number;
  }
  return sample;
}

// Whether a property holds for nearly all elements that it applies to, and for enough of them. `fits` returns 1, 0 or,
// if the property does not apply, -1.
bool holds(const Sample& s, const std::function<int(int64_t)>& fits) {
  size_t asked = 0, yes = 0;
  for (int64_t i : s.at) {
    int answer = fits(i);
    if (answer < 0) continue;
    ++asked;
    yes += static_cast<size_t>(answer);
  }
  return yes >= s.least && 2 * asked >= s.at.size() && static_cast<double>(yes) >= kMost * static_cast<double>(asked);
}

// Whether predicted values are much nearer than the right ones: elements with small errors fit many patterns.
bool much_nearer(const Sample& s, const std::function<double(int64_t)>& predicted) {
  double off = 0, error = 0;
  for (int64_t i : s.at) {
    double got = s.got(i), value = predicted(i), want = s.want(i);
    if (!std::isfinite(got) || !std::isfinite(value) || !std::isfinite(want)) continue;
    off += std::abs(got - value);
    error += std::abs(got - want);
  }
  return off < 0.5 * error;
}

std::string equal_values(const Sample& s) {
  double first = s.got(s.at.front());
  bool equal = s.at.size() > 1 && std::all_of(s.at.begin(), s.at.end(), [&](int64_t i) { return s.got(i) == first; });
  return equal ? fmt::format("Each of them is {}.", first) : "";
}

std::string earlier_call(const Sample& s) {
  size_t size = dtype_size(s.output.got.dtype());
  auto bytes = [&](const View& v, int64_t i) {
    return static_cast<const std::byte*>(v.data()) + static_cast<size_t>(i) * size;
  };
  for (auto old = s.output.earlier.rbegin(); old != s.output.earlier.rend(); ++old) {
    if (!((*old)->view().spec() == s.output.got.spec())) continue;
    if (holds(s, [&](int64_t i) { return std::memcmp(bytes(s.output.got, i), bytes(**old, i), size) == 0 ? 1 : 0; }))
      return "They hold what an earlier call left there: memory is used again without being computed again.";
  }
  return "";
}

std::string shifted(const Sample& s) {
  for (const DimensionOf& d : s.output.dimensions)
    for (int64_t by : {1, -1, 2, -2}) {
      auto fits = [&](int64_t i) {
        int64_t index = i / d.stride % d.size + by;
        return index < 0 || index >= d.size ? -1 : s.near(s.got(i), s.want(i + by * d.stride)) ? 1 : 0;
      };
      if (d.size <= std::abs(by) || !holds(s, fits)) continue;
      std::string far = std::abs(by) == 1 ? "" : fmt::format("{} ", std::abs(by));
      return fmt::format("They hold the values that belong {}{}{} {}: the {}s are shifted.", far.empty() ? "one " : far,
                         d.name, far.empty() ? "" : "s", by > 0 ? "further on" : "before", d.name);
    }
  return "";
}

std::string halves_swapped(const Sample& s) {
  const DimensionOf& d = s.output.dimensions.back();
  if (d.size % 2 != 0) return "";
  bool swapped = holds(s, [&](int64_t i) {
    int64_t half = i % d.size < d.size / 2 ? d.size / 2 : -d.size / 2;
    return s.near(s.got(i), s.want(i + half)) ? 1 : 0;
  });
  return swapped ? fmt::format("The first and the second half of the {}s are exchanged.", d.name) : "";
}

std::string transposed(const Sample& s) {
  for (size_t k = 0; k + 1 < s.output.dimensions.size(); ++k) {
    const DimensionOf &a = s.output.dimensions[k], &b = s.output.dimensions[k + 1];
    if (a.size < 2 || b.size < 2) continue;
    bool fits = holds(s, [&](int64_t i) {
      int64_t inside = i % b.stride, matrix = i / (a.size * a.stride), at = i / b.stride % (a.size * b.size);
      int64_t source = at % a.size * b.size + at / a.size;
      return s.near(s.got(i), s.want((matrix * a.size * b.size + source) * b.stride + inside)) ? 1 : 0;
    });
    if (fits) return fmt::format("They are transposed: {}s and {}s are exchanged.", a.name, b.name);
  }
  return "";
}

// got / want, if that is meaningful.
std::optional<double> ratio_at(const Sample& s, int64_t i) {
  double got = s.got(i), want = s.want(i);
  if (!std::isfinite(got) || !std::isfinite(want) || !(std::abs(want) > s.allowed(want))) return std::nullopt;
  return got / want;
}

std::string scaled(const Sample& s) {
  std::vector<double> ratios;
  for (int64_t i : s.at)
    if (std::optional<double> ratio = ratio_at(s, i)) ratios.push_back(*ratio);
  if (ratios.size() < s.least) return "";
  double factor = median(ratios);
  if (factor == 0) return "";
  bool fits = holds(s, [&](int64_t i) {
    double want = s.want(i);
    return std::abs(s.got(i) - factor * want) <= std::max(1.0, std::abs(factor)) * s.allowed(want) ? 1 : 0;
  });
  if (!fits || !much_nearer(s, [&](int64_t i) { return factor * s.want(i); })) return "";
  if (std::abs(factor + 1) < 1e-3) return "Each of them has the wrong sign.";
  bool little = std::abs(factor - 1) < 0.01;  // then more digits are printed
  return fmt::format("Each of them is {} times what it should be.",
                     little ? fmt::format("{:.6g}", factor) : fmt::format("{:.4g}", factor));
}

std::string offset(const Sample& s) {
  std::vector<double> differences;
  for (int64_t i : s.at)
    if (double by = s.got(i) - s.want(i); std::isfinite(by)) differences.push_back(by);
  if (differences.size() < s.least) return "";
  double by = median(differences);
  bool fits = holds(s, [&](int64_t i) { return s.near(s.got(i) - by, s.want(i)) ? 1 : 0; });
  if (!fits || !much_nearer(s, [&](int64_t i) { return s.want(i) + by; })) return "";
  return fmt::format("Each of them is too {} by {:.4g}.", by > 0 ? "large" : "small", std::abs(by));
}

std::string row_scaled(const Sample& s) {
  if (s.output.dimensions.size() < 2) return "";
  int64_t cols = s.output.dimensions.back().size;
  std::map<int64_t, std::vector<double>> ratios;
  for (int64_t i : s.at)
    if (std::optional<double> ratio = ratio_at(s, i)) ratios[i / cols].push_back(*ratio);
  std::map<int64_t, double> factors;
  for (auto& [row, of_row] : ratios)
    if (of_row.size() >= kFew) factors[row] = median(of_row);
  if (factors.size() < 2) return "";
  bool fits = holds(s, [&](int64_t i) {
    auto factor = factors.find(i / cols);
    if (factor == factors.end()) return -1;
    double want = s.want(i);
    return std::abs(s.got(i) - factor->second * want) <= std::max(1.0, std::abs(factor->second)) * s.allowed(want) ? 1
                                                                                                                   : 0;
  });
  auto predicted = [&](int64_t i) {
    auto factor = factors.find(i / cols);
    return factor == factors.end() ? s.want(i) : factor->second * s.want(i);
  };
  if (!fits || !much_nearer(s, predicted)) return "";
  double low = factors.begin()->second, high = low;
  for (const auto& [row, factor] : factors) low = std::min(low, factor), high = std::max(high, factor);
  return fmt::format(
      "In each row all elements are wrong by one factor ({:.4g} to {:.4g}): a value computed once per row is wrong.",
      low, high);
}

template <class Narrow>
bool all_rounded_to(const Sample& s) {
  constexpr size_t kEnough = 16;
  return s.at.size() >= kEnough && holds(s, [&](int64_t i) {
           double x = s.got(i);
           return static_cast<double>(static_cast<float>(Narrow(static_cast<float>(x)))) == x ? 1 : 0;
         });
}

std::string rounded(const Sample& s) {
  if (s.output.got.dtype() != DType::kF32 && s.output.got.dtype() != DType::kF64) return "";
  const char* to = all_rounded_to<bf16>(s) ? "bf16" : all_rounded_to<f16>(s) ? "f16" : nullptr;
  return to == nullptr ? "" : fmt::format("They are rounded to {}.", to);
}

constexpr std::string (*kPatterns[])(const Sample&) = {
    equal_values, earlier_call, shifted, halves_swapped, transposed, scaled, offset, row_scaled, rounded};

std::string index_text(const WrongOutput& output, int64_t flat) {
  std::string text;
  for (const DimensionOf& d : output.dimensions)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", flat / d.stride % d.size);
  return "[" + text + "]";
}

// The first NaN that the candidate computed; the fill pattern of outputs may be NaN too.
std::string first_nan(const WrongOutput& output) {
  if (!dtype_is_float(output.got.dtype())) return "";
  int64_t first = -1;
  size_t count = 0;
  for (size_t i = 0; i < output.wrong.size(); ++i) {
    if (output.wrong[i] == 0 || unwritten(output, i)) continue;
    if (!std::isnan(Sample::load_at(output.got, static_cast<int64_t>(i)))) continue;
    if (first < 0) first = static_cast<int64_t>(i);
    ++count;
  }
  if (count == 0) return "";
  return count == 1 ? fmt::format("The one at {} is NaN.", index_text(output, first))
                    : fmt::format("{} of them are NaN, the first at {}.", count, index_text(output, first));
}

}  // namespace

std::string pattern_sentence(const WrongOutput& output) {
  if (output.dimensions.empty()) return "";
  Sample s = sample_of(output);
  auto total = static_cast<size_t>(std::count(output.wrong.begin(), output.wrong.end(), uint8_t{1}));
  if (s.written == 0) return total == 0 ? "" : total == 1 ? "It was never written." : "They were never written.";
  bool some = s.written < total;
  std::string found = first_nan(output);
  for (size_t i = 0; i < std::size(kPatterns) && found.empty(); ++i) found = kPatterns[i](s);
  if (!some) return found;
  return fmt::format("{} of them were never written.{}", total - s.written,
                     found.empty() ? "" : " Of the others: " + found);
}

}  // namespace fk
