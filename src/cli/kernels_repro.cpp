#include "cli/kernels_repro.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "cli/options.h"
#include "cli/shell_line.h"
#include "core/error.h"

namespace fk {

std::string repro_command(const KernelResult& result, const ReproFlags& flags) {
  const Scenario& scenario = result.scenario;
  std::vector<std::string> words = {"fastkernels", "kernels", "--target", scenario.op};
  auto add = [&](std::vector<std::string> more) { words.insert(words.end(), more.begin(), more.end()); };
  if (flags.device != kCpu) add({"--device", device_name(flags.device)});
  if (!flags.scenario_files.empty()) {
    add({"--scenarios"});
    add(flags.scenario_files);
  } else {
    add({"--model", scenario.models.empty() ? "all" : scenario.models.front()});
    if (scenario.tp != 1) add({"--tp", std::to_string(scenario.tp)});
  }
  add({"--filter", scenario.name});
  if (flags.threads) add({"--threads", std::to_string(*flags.threads)});
  if (flags.cold) add({"--cold"});
  if (flags.self_test) add({"--self-test"});
  if (flags.allow_libraries) add({"--allow-libraries"});
  if (!flags.cxxflags.empty()) add({"--cxxflags=" + flags.cxxflags});
  if (!result.judgement.failures.empty())
    add({"--repro", fmt::format("{}:{}", result.judgement.seed, result.judgement.failures.front().probe.call)});
  else if (result.judgement.calls > 0)
    add({"--repro", std::to_string(result.judgement.seed)});
  const char* folder = std::getenv("FASTKERNELS_CANDIDATE_DIR");
  std::string before = folder == nullptr ? "" : fmt::format("FASTKERNELS_CANDIDATE_DIR={} ", shell_word(folder));
  return before + shell_line(words);
}

void set_repro(KernelOptions& options, const std::string& text) {
  std::string_view all = text;
  size_t colon = std::min(all.find(':'), all.size());
  options.seed = parse_whole<uint64_t>(all.substr(0, colon));
  if (colon < all.size()) options.last_call = parse_whole<int>(all.substr(colon + 1));
  bool call = colon == all.size() || options.last_call.value_or(-1) >= 0;
  if (!options.seed || !call) throw UsageError("--repro takes SEED or SEED:CALL, two whole numbers, not '{}'", text);
}

}  // namespace fk
