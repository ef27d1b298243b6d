// How a matrix is packed into panels.
#include "backend/cpu/quantised/panel_product.h"

namespace fk {
namespace {

constexpr int64_t kStep = kRoundedGroup;  // elements of k at a time
constexpr int64_t kShortGroup = 16;

// Rows of codes, [kRows][k], in the order of panels.
void store_codes(const IntPanels& w, const int8_t* rows, const uint8_t (&nibble_of)[256], uint8_t* to) {
  const int64_t half_step = IntPanels::kRows * kStep / 2;
  for (int64_t at = 0; at < w.k; at += kStep) {
    for (int64_t j = 0; j < 4; ++j) {
      for (int64_t r = 0; r < IntPanels::kRows; ++r) {
        const int8_t* low = rows + r * w.k + at + 4 * j;
        for (int64_t b = 0; b < 4; ++b) {
          int64_t place = (j * IntPanels::kRows + r) * 4 + b;
          if (w.nibbles) {
            to[place] = static_cast<uint8_t>(nibble_of[static_cast<uint8_t>(low[b])] |
                                             nibble_of[static_cast<uint8_t>(low[b + 16])] << 4);
          } else {
            to[place] = static_cast<uint8_t>(low[b]);
            to[place + half_step] = static_cast<uint8_t>(low[b + 16]);
          }
        }
      }
    }
    to += w.nibbles ? half_step : 2 * half_step;
  }
}

}  // namespace

std::string_view refuse_panels(const ScaledFormat& format, int64_t k) {
  if (!format.has_codes()) return "the format has no integer codes";
  if (k % kStep != 0) return "rows of weights are not of whole groups of 32 elements";
  int64_t group = format.code_group(k);
  if (group % kStep != 0 && group != kShortGroup) return "groups of weights are neither of 16 nor of a multiple of 32";
  if (group == kShortGroup && (format.has_offsets() || format.code_values().empty()))
    return "groups of 16 have zero points or codes of 8 bits";
  return {};
}

IntPanels pack_panels(const ScaledFormat& format, std::span<const View> tensors, int64_t rows, int64_t k) {
  IntPanels w;
  w.rows = rows;
  w.k = k;
  w.group = format.code_group(k);
  w.has_minimums = format.has_offsets();
  std::span<const int8_t> values = format.code_values();
  w.nibbles = !values.empty();
  uint8_t nibble_of[256] = {};
  for (size_t i = values.size(); i-- > 0;) nibble_of[static_cast<uint8_t>(values[i])] = static_cast<uint8_t>(i);
  std::copy(values.begin(), values.end(), w.values);
  const int64_t groups = w.groups(), panel_bytes = w.panel_bytes();
  const auto scale_bytes = static_cast<size_t>(w.panels() * groups * IntPanels::kRows) * sizeof(float);
  w.codes = Buffer(static_cast<size_t>(w.panels() * panel_bytes));
  w.scales = Buffer(scale_bytes);
  if (w.has_minimums) w.minimums = Buffer(scale_bytes);
  constexpr int64_t kManyElements = 1 << 18;  // from this size on starting threads pays off
  ThreadPool pool(rows * k >= kManyElements ? std::min(usable_cores(), 8) : 1);
  pool.parallel_for(w.panels(), 4, [&](int64_t begin, int64_t end) {
    std::vector<int8_t> codes(static_cast<size_t>(IntPanels::kRows * k));
    std::vector<float> scales(static_cast<size_t>(groups)), offsets(static_cast<size_t>(groups));
    for (int64_t panel = begin; panel < end; ++panel) {
      std::fill(codes.begin(), codes.end(), int8_t{0});
      auto* of_scales = reinterpret_cast<float*>(w.scales.data()) + panel * groups * IntPanels::kRows;
      auto* of_minimums = reinterpret_cast<float*>(w.minimums.data()) + panel * groups * IntPanels::kRows;
      for (int64_t r = 0; r < IntPanels::kRows; ++r) {
        int64_t row = panel * IntPanels::kRows + r;
        bool present = row < rows;
        if (present)
          format.codes(tensors, row, std::span(codes).subspan(static_cast<size_t>(r * k), static_cast<size_t>(k)),
                       scales.data(), offsets.data());
        for (int64_t g = 0; g < groups; ++g) {
          float scale = present ? scales[static_cast<size_t>(g)] : 0;
          of_scales[g * IntPanels::kRows + r] = scale;
          if (w.has_minimums)
            of_minimums[g * IntPanels::kRows + r] = present ? scale * offsets[static_cast<size_t>(g)] : 0;
        }
      }
      store_codes(w, codes.data(), nibble_of, reinterpret_cast<uint8_t*>(w.codes.data()) + panel * panel_bytes);
    }
  });
  return w;
}

}  // namespace fk
