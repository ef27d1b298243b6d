// Common flags: what they are called, what they accept, and the sentence for what they refuse.
#include "cli/options.h"

#include <charconv>
#include <optional>

#include "cli/missing_parts.h"
#include "core/error.h"

namespace fk {
namespace {

template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Device parse_device(std::string_view text) {
  if (text == "auto" || text == "cpu") return kCpu;
  bool cuda = text == "cuda";
  if (text.substr(0, 5) == "cuda:") {
    std::optional<int> index = parse_whole<int>(text.substr(5));
    cuda = index && *index >= 0 && *index <= 127;
  }
  if (!cuda) throw UsageError("--device {} is not a device; use auto, cpu, cuda or cuda:0 to cuda:127", text);
  MissingPart missing = cuda_backend();
  throw UsageError("--device {} cannot be used because {}; {}, or use --device cpu", text, missing.why, missing.how);
}

void add_common_options(CLI::App& app, CommonOptions& options) {
  constexpr const char* kGroup = "Options of every verb";
  // `history --device` selects runs and is the verb's own.
  if (app.get_option_no_throw("--device") == nullptr)
    app.add_option_function<std::string>(
           "--device", [&options](const std::string& text) { options.device = parse_device(text); },
           "Where to compute: auto, cpu, cuda or cuda:i [auto]")
        ->type_name("DEVICE")
        ->group(kGroup);
  app.add_option("--threads", options.threads,
                 "CPU threads, 1 to " + std::to_string(kMaxThreads) + " [the cores this process may use]")
      ->check(CLI::Range(1, kMaxThreads).description(""))
      ->type_name("N")
      ->group(kGroup);
  // CLI11 reads an unsigned number with strtoull, which takes -1 and silently caps what does not fit.
  app.add_option_function<std::string>(
         "--seed",
         [&options](const std::string& text) {
           std::optional<uint64_t> seed = parse_whole<uint64_t>(text);
           if (!seed) throw UsageError("--seed {} is not a whole number from 0 to 2^64-1; give one", text);
           options.seed = *seed;
         },
         "Seed of everything random [0]")
      ->type_name("N")
      ->group(kGroup);
  app.add_flag("--json", options.json, "Print JSON")->group(kGroup);
  app.add_flag("--csv", options.csv, "Print CSV")->group(kGroup);
  app.add_flag("--quiet", options.quiet, "Print results and errors only")->group(kGroup);
  app.set_help_flag("--help,-h", "Print this help")->group(kGroup);
}

void check_common_options(const CommonOptions& options) {
  if (options.json && options.csv) throw UsageError("--json and --csv exclude each other; give one of them");
}

}  // namespace fk
