#include "cli/kernels_changes.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/kernels_table.h"

namespace fk {
namespace {

struct Speed {
  double value, low, high;
};

Speed speed_of(const Json& timing) {
  return {timing.at("speedup").get<double>(), timing.at("speedup_low").get<double>(),
          timing.at("speedup_high").get<double>()};
}

}  // namespace

std::string changes_since(const std::vector<KernelRow>& before, const std::vector<KernelRow>& after) {
  std::string text;
  size_t alike = 0, compared = 0;
  for (const KernelRow& now : after) {
    auto same = [&](const KernelRow& other) {
      return other.json["operator"] == now.json["operator"] && other.json["scenario"] == now.json["scenario"];
    };
    auto was = std::find_if(before.begin(), before.end(), same);
    if (was == before.end()) continue;
    ++compared;
    std::string name = fmt::format("{} {}", now.json.value("operator", ""), now.json.value("scenario", ""));
    auto verdict = now.json.value("verdict", ""), verdict_then = was->json.value("verdict", "");
    const Json *timing = timing_of(now.json), *timing_then = timing_of(was->json);
    if (verdict != verdict_then) {
      text += fmt::format("  {}: {} -> {}\n", name, verdict_then, verdict);
    } else if (timing != nullptr && timing_then != nullptr) {
      Speed speed = speed_of(*timing), then = speed_of(*timing_then);
      if (speed.low > then.high || speed.high < then.low)
        text += fmt::format("  {}: {:.3f}x -> {:.3f}x, {:.2f} times as fast\n", name, then.value, speed.value,
                            speed.value / then.value);
      else
        ++alike;
    } else {
      ++alike;
    }
  }
  if (compared == 0) return "";
  if (text.empty()) return "since the last run: nothing changed beyond noise\n";
  if (alike > 0) text += fmt::format("  {} other{}: no change beyond noise\n", alike, alike == 1 ? "" : "s");
  return "since the last run:\n" + text;
}

}  // namespace fk
