// The common flags: names, accepted values and error messages.
#include "cli/options.h"

#include <fmt/format.h>

#include <cstdlib>
#include <optional>

#include "core/device_runtime.h"
#include "core/error.h"

namespace fk {

Device parse_device(std::string_view text) {
  if (text == "auto" || text == "cpu") return kCpu;
  std::optional<int> index;
  if (text == "cuda") index = 0;
  if (text.substr(0, 5) == "cuda:") index = parse_whole<int>(text.substr(5));
  if (!index || *index < 0 || *index > 127)
    throw UsageError("--device {} is not a device; use auto, cpu, cuda or cuda:0 to cuda:127", text);
  return {DeviceKind::kCuda, static_cast<int8_t>(*index)};
}

Flag& add_seed(FlagSet& flags, const std::string& flag, uint64_t& seed, const std::string& help) {
  auto read = [&seed, flag](const std::string& text) {
    std::optional<uint64_t> number = parse_whole<uint64_t>(text);
    if (!number) throw UsageError("{} {} is not a whole number from 0 to 2^64-1; give one", flag, text);
    seed = *number;
  };
  return flags.option(flag, read, fmt::format("{} [{}]", help, seed)).type_name("N");
}

std::string seconds_complaint(const std::string& text) {
  char* end = nullptr;
  double seconds = std::strtod(text.c_str(), &end);
  bool number = !text.empty() && end == text.c_str() + text.size();
  // Written so that a NaN fails.
  return number && seconds > 0 && seconds <= 1e6 ? "" : text + " is not a number of seconds above 0, at most 1000000";
}

void add_common_options(FlagSet& flags, CommonOptions& options) {
  // `history --device` selects runs and is the verb's own.
  if (flags.find("--device") == nullptr)
    flags
        .option(
            "--device", [&options](const std::string& text) { options.device = parse_device(text); },
            "Where to compute: auto, cpu, cuda or cuda:i [auto]")
        .type_name("DEVICE")
        .group(kCommonGroup);
  flags
      .option("--threads", options.threads,
              "CPU threads, 1 to " + std::to_string(kMaxThreads) + " [the cores this process may use]")
      .range(1, kMaxThreads)
      .type_name("N")
      .group(kCommonGroup);
  add_seed(flags, "--seed", options.seed, "Seed of prompts and drawn tokens; `kernels` draws its own in secret")
      .group(kCommonGroup);
  Flag& json = flags.flag("--json", options.json, "Print JSON").group(kCommonGroup);
  flags.flag("--csv", options.csv, "Print CSV").group(kCommonGroup).excludes(json);
  flags.flag("--quiet", options.quiet, "Print results and errors only").group(kCommonGroup);
}

void check_common_options(const CommonOptions& options, bool computes) {
  if (options.json && options.csv) throw UsageError("--json and --csv exclude each other; give one of them");
  if (!computes) return;
  if (std::string why = device_missing(options.device); !why.empty())
    throw UsageError("--device {} cannot be used: {}{}", device_name(options.device), why,
                     why.find("--device cpu") == std::string::npos ? ", or use --device cpu" : "");
}

}  // namespace fk
