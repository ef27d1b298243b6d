#include "bench/profile/profile_tools.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "candidate/compile_cache.h"
#include "candidate/compiler_process.h"
#include "core/error.h"
#include "measure/child_output.h"
#include "measure/small_file.h"

namespace fk {
namespace {

namespace fs = std::filesystem;

template <class Visit>
void for_lines(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    visit(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// The line of a tool's output that says why it failed.
std::string why_in(const std::string& log) {
  std::string why;
  for_lines(log, [&](std::string_view line) {
    if (why.empty() &&
        (line.find("==ERROR==") != std::string_view::npos || line.find("rror:") != std::string_view::npos))
      why = trim(line.substr(line.find("==ERROR==") == std::string_view::npos ? 0 : line.find("==ERROR==") + 9));
  });
  return why;
}

}  // namespace

std::optional<std::string> find_ncu() {
  if (const char* named = getenv("NCU"); named != nullptr && *named != '\0') return named;
  if (std::optional<std::string> found = find_program("ncu")) return found;
  for (const char* path : {"/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/ncu"})
    if (access(path, X_OK) == 0) return path;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/opt/nvidia/nsight-compute", error))
    if (fs::path path = entry.path() / "ncu"; access(path.c_str(), X_OK) == 0) return path.string();
  return std::nullopt;
}

NcuRun run_ncu(const std::string& ncu, const std::vector<std::string>& command, const std::string& base, int limit_ms) {
  NcuRun run;
  // Clocks unchanged, since times are compared with ours; only the calls that the program marks.
  std::vector<std::string> words = {
      ncu, "--clock-control", "none", "--profile-from-start", "off", "--set", "full", "--force-overwrite", "--export",
      base};
  words.insert(words.end(), command.begin(), command.end());
  CompilerRun made = run_compiler(words, limit_ms);
  write_whole(base + ".log", made.log);
  if (made.timed_out) {
    run.problem = fmt::format("Nsight Compute took longer than {} s and was ended.", limit_ms / 1000);
    return run;
  }
  if (made.log.find("ERR_NVGPUCTRPERM") != std::string::npos) {
    run.problem =
        "Nsight Compute may not read this GPU's counters; run as root, or set NVreg_RestrictProfilingToAdminUsers=0.";
    return run;
  }
  run.report = base + ".ncu-rep";
  std::error_code error;
  if (!made.succeeded() || !fs::exists(run.report, error)) {
    run.report.clear();
    std::string why = why_in(made.log);
    run.problem = fmt::format("Nsight Compute failed ({}); its messages are in {}.log.",
                              why.empty() ? "no reason given" : why, base);
    return run;
  }
  std::string csv = base + ".csv";
  run_compiler({ncu, "--import", run.report, "--csv", "--page", "raw", "--log-file", csv}, limit_ms);
  try {
    run.kernels = parse_ncu_csv(file_text(csv).value_or(""));
  } catch (const Error& e) {
    run.problem = e.what();
  }
  std::stable_sort(run.kernels.begin(), run.kernels.end(),
                   [](const ProfiledKernel& a, const ProfiledKernel& b) { return a.seconds() > b.seconds(); });
  return run;
}

double PerfCounts::count(std::string_view event) const {
  for (const auto& [name, value] : counts)
    if (name.substr(0, name.find(':')) == event) return value;
  return 0;
}

PerfCounts parse_perf_csv(std::string_view text) {
  PerfCounts result;
  for_lines(text, [&](std::string_view line) {
    size_t at = 0;
    std::vector<std::string> fields = csv_record(line, at);
    if (fields.size() < 3) return;
    double value = 0;
    auto [end, status] = std::from_chars(fields[0].data(), fields[0].data() + fields[0].size(), value);
    if (status == std::errc() && end == fields[0].data() + fields[0].size())
      result.counts.emplace_back(fields[2], value);
  });
  if (result.counts.empty()) result.problem = "perf counted nothing: this machine gives no hardware counters.";
  return result;
}

PerfCounts run_perf(const std::vector<std::string>& command, int limit_ms) {
  PerfCounts none;
  if (!find_program("perf")) {
    none.problem = "perf is not installed, so instructions and cache misses were not counted.";
    return none;
  }
  std::vector<std::string> words = {
      "perf", "stat", "-x,", "-e", "instructions,cycles,branches,branch-misses,cache-references,cache-misses", "--"};
  words.insert(words.end(), command.begin(), command.end());
  return parse_perf_csv(run_compiler(words, limit_ms).log);
}

InstructionMix count_instructions(std::string_view disassembly) {
  InstructionMix mix;
  for_lines(disassembly, [&](std::string_view line) {
    // "    11a0:\tvaddps %ymm1,%ymm0,%ymm0"
    size_t tab = line.rfind('\t');
    if (tab == std::string_view::npos || line.find(":\t") == std::string_view::npos) return;
    std::string_view text = line.substr(tab + 1), name = text.substr(0, text.find_first_of(" \n"));
    ++mix.all;
    auto has = [&](std::string_view part) { return text.find(part) != std::string_view::npos; };
    bool arm_branch = name == "cbz" || name == "cbnz" || name == "tbz" || name == "tbnz" || name.starts_with("b.");
    if (arm_branch || (name.size() > 1 && name[0] == 'j' && name != "jmp")) ++mix.branches;
    bool packed = name.ends_with("ps") || name.ends_with("pd") || name.ends_with("bf16");
    bool single = name.ends_with("ss") || name.ends_with("sd");
    bool arm_vector = name.starts_with("f") && (has(".4s") || has(".2d") || has(".8h"));
    if (packed || arm_vector) {
      ++mix.vector;
      mix.widest_bits = std::max(mix.widest_bits, has("%zmm") ? 512 : has("%ymm") ? 256 : 128);
    } else if (single) {
      ++mix.scalar;
    }
  });
  return mix;
}

std::optional<InstructionMix> instructions_of(const std::string& library) {
  if (!find_program("objdump")) return std::nullopt;
  std::optional<std::string> text = output_of({"objdump", "-d", "--no-show-raw-insn", library}, 20'000);
  if (!text) return std::nullopt;
  return count_instructions(*text);
}

std::vector<std::string> describe(const InstructionMix& mix) {
  std::vector<std::string> lines;
  int64_t arithmetic = mix.vector + mix.scalar;
  if (arithmetic == 0) return {"Its code holds no floating point arithmetic of its own."};
  lines.push_back(fmt::format(
      "Of {} floating point instructions in its code {:.0f} % work on vectors, of up to {} bits.", arithmetic,
      100.0 * static_cast<double>(mix.vector) / static_cast<double>(arithmetic), mix.widest_bits));
  if (mix.vector * 2 < arithmetic)
    lines.emplace_back(
        "Most work on one element at a time: see why the compiler does not vectorise (-fopt-info-vec-missed).");
  return lines;
}

std::vector<std::string> describe(const PerfCounts& c) {
  if (!c.problem.empty()) return {c.problem};
  std::vector<std::string> lines;
  if (c.count("cycles") > 0 && c.count("instructions") > 0)
    lines.push_back(fmt::format("{:.2f} instructions a cycle.", c.count("instructions") / c.count("cycles")));
  if (c.count("branches") > 0)
    lines.push_back(fmt::format("{:.2f} % of its branches were foreseen wrongly.",
                                100 * c.count("branch-misses") / c.count("branches")));
  if (c.count("cache-references") > 0)
    lines.push_back(fmt::format("{:.0f} % of the accesses that reached the last cache went to memory.",
                                100 * c.count("cache-misses") / c.count("cache-references")));
  return lines;
}

}  // namespace fk
