// self_attack: the largest fraud of every kind that the judge and the timer do not detect on this machine, as a table.
//
//   self_attack [--device cpu|cuda] [--only KIND] [--target NAME] [--strength X] [--steps N] [--pairs N] [--seconds N]
//               [--json FILE] [--markdown FILE] [--compile-only] [--list]
//
// Kinds of fraud and their operators are in tests/attack/mutation.cpp. --only and --target may be given several times;
// --strength tries that one instead of searching. After --seconds (280 on a GPU, unless given) no new search begins.
// Exit code 1: a fraud with a gain above the claimed resolution was not detected.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "measure/timer.h"
#include "tests/attack/attack.h"
#include "tests/attack/report.h"

namespace fk::attack {
namespace {

struct Wanted {
  DeviceKind device = DeviceKind::kCpu;
  AttackOptions options;
  std::vector<std::string> only, targets;
  std::optional<double> strength;
  double seconds = 1e9;
  std::string json, markdown;
  bool compile_only = false, list = false;
};

Wanted read_arguments(int argc, char** argv) {
  Wanted w;
  std::vector<std::string> words(argv + 1, argv + argc);
  for (size_t i = 0; i < words.size(); ++i) {
    auto value = [&]() -> const std::string& {
      if (i + 1 == words.size()) throw Error("{} wants a value after it.", words[i]);
      return words[++i];
    };
    if (words[i] == "--device") {
      w.device = value() == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu;
      // A trial takes longer on a GPU, mostly because of starting processes; and nvcc is slow, so only sources compiled
      // in advance are tried.
      if (w.device == DeviceKind::kCuda) {
        w.options = {.pairs = 24, .launches = 2, .sample_on_s = 0, .steps = 1};
        w.seconds = 280;
      }
    } else if (words[i] == "--only") {
      w.only.push_back(value());
    } else if (words[i] == "--target") {
      w.targets.push_back(value());
    } else if (words[i] == "--strength") {
      w.strength = std::stod(value());
    } else if (words[i] == "--steps") {
      w.options.steps = std::stoi(value());
    } else if (words[i] == "--pairs") {
      w.options.pairs = std::stoi(value());
    } else if (words[i] == "--seconds") {
      w.seconds = std::stod(value());
    } else if (words[i] == "--json") {
      w.json = value();
    } else if (words[i] == "--markdown") {
      w.markdown = value();
    } else if (words[i] == "--compile-only") {
      w.compile_only = true;
    } else if (words[i] == "--list") {
      w.list = true;
    } else {
      throw Error("'{}' is no option; the first lines of tools/bench/self_attack.cpp list them.", words[i]);
    }
  }
  return w;
}

bool chosen(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

int run(int argc, char** argv) {
  Wanted w = read_arguments(argc, argv);
  for (const std::string& name : w.only) kind_named(w.device, name);  // throws if there is none
  for (const std::string& name : w.targets) target_named(w.device, name);
  std::vector<std::pair<const Kind*, const Target*>> searches;
  for (const Kind& kind : kinds(w.device))
    for (const std::string& name : kind.targets)
      if (chosen(w.only, kind.name) && chosen(w.targets, name))
        searches.emplace_back(&kind, &target_named(w.device, name));
  if (w.list) {
    for (const auto& [kind, target] : searches)
      fmt::print("{:<20} {:<20} {} .. {}  {}\n", kind->name, target->name, strength_text(*kind, kind->least),
                 strength_text(*kind, kind->most), kind->what);
    return 0;
  }

  Stopwatch watch;
  size_t at = 0;
  bool terminal = isatty(STDERR_FILENO) != 0;
  w.options.progress = [&](std::string_view what) {
    bool result = what.find("(") != std::string_view::npos || what.starts_with("compiled");
    if (terminal)
      fmt::print(stderr, "\r\033[K[{}/{}, {:.0f} s] {}", at, searches.size(), watch.elapsed_s(), what);
    else if (result)
      fmt::print(stderr, "[{}/{}, {:.0f} s] {}\n", at, searches.size(), watch.elapsed_s(), what);
    std::fflush(stderr);
  };
  setenv("FASTKERNELS_RUNNER", FK_BINARY_DIR "/fastkernels-runner", 0);
  Attack attack(w.device == DeviceKind::kCuda ? Device{DeviceKind::kCuda, 0} : kCpu, w.options);
  if (w.device == DeviceKind::kCuda || w.compile_only) attack.compile_ahead(searches);
  if (w.compile_only) return 0;

  std::vector<Finding> findings;
  for (const auto& [kind, target] : searches) {
    if (watch.elapsed_s() > w.seconds) break;
    ++at;
    findings.push_back(w.strength ? Finding{kind, target, {attack.attempt(*kind, *target, *w.strength)}}
                                  : attack.find(*kind, *target));
  }
  if (terminal) fmt::print(stderr, "\r\033[K");
  fmt::print("{}", to_text(findings));
  if (at < searches.size())
    fmt::print("After {:.0f} s, {} of {} searches were left out.\n", watch.elapsed_s(), searches.size() - at,
               searches.size());
  if (!w.json.empty()) std::ofstream(w.json) << dump_json(to_json(findings)) << "\n";
  if (!w.markdown.empty()) std::ofstream(w.markdown) << to_markdown(findings);
  return std::any_of(findings.begin(), findings.end(), worth_caring) ? 1 : 0;
}

}  // namespace
}  // namespace fk::attack

int main(int argc, char** argv) {
  try {
    return fk::attack::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
